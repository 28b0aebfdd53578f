// SPDX-License-Identifier: Apache-2.0
// update.h: new systems for the appliance, as `sluice init` handles them: takes an update in parts over its
// requests or from a URL, has it written by a helper process, restarts into the trial, watches the
// trial, and blesses it or goes back. The table is in update_table.h, the format in docs/updates.md.
//
// Request "update" (without args: what "update-status" answers):
//   {"op":"begin","bytes":N,"allow_downgrade":false,"restart":true}  -> {"id":7,"part_bytes":131072}
//   {"op":"data","id":7,"offset":0,"data":"<base64>"}                 -> {"received":131072}
//   {"op":"finish","id":7}                                            -> {"finishing":true}
//   {"op":"fetch","url":"http://...","allow_downgrade":false,"restart":true}  -> {"started":true}
//   {"op":"abort"}  {"op":"confirm"}
// Parts come in order, one request at a time. How the writer gets on, and what came of it, is in the status: "state"
// is "writing", then "written", or "idle" with an "error". Init's loop only.
#ifndef SLUICE_INIT_UPDATE_H
#define SLUICE_INIT_UPDATE_H

#define UPDATE_KEYS_PATH "/etc/sluice/update.pub"
#define UPDATE_PARTITION "sluice-esp"

// Registers the requests and, in a trial, begins to watch it. Once, after the command line was read.
void init_update_start(void);

#endif
