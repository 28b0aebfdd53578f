// SPDX-License-Identifier: Apache-2.0
// tls_admission.h: whose handshake gets the processor. A handshake's public key operations take up to milliseconds, and
// a storm of thousands must not hold up those who are connected. So records of handshakes are only queued when they
// are received; once a turn of the loop, after everything else that came, the worker works on them for at most
// LIMIT_TLS_TURN_US. At most LIMIT_TLS_HANDSHAKES have memory at once, of one address at most
// handshakes_per_address; the rest wait in order of arrival, until handshake_timeout. One that makes no progress
// gives way when others wait.
#ifndef SLUICE_NET_TLS_ADMISSION_H
#define SLUICE_NET_TLS_ADMISSION_H

#include "worker.h"

// Once a turn of the loop.
void tls_admission_run(worker *w);
// Whether the loop must not sleep.
bool tls_admission_has_work(const worker *w);
void tls_admission_free(worker *w);

#endif
