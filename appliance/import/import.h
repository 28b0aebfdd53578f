// SPDX-License-Identifier: Apache-2.0
// import.h: `sluice import FILE`: a mosquitto.conf in, the equivalent configuration of this gateway
// out, with what could not be carried over named line by line. argv[0] is "import". Returns the
// exit status.
#ifndef SLUICE_IMPORT_IMPORT_H
#define SLUICE_IMPORT_IMPORT_H

int import_main(int argc, char **argv);

#endif
