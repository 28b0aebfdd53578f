// SPDX-License-Identifier: Apache-2.0
// control.h: how the parts of `sluice init` tell each other what happened: the configuration is there, the
// network is up, the machine is to go down; and what they may ask: how is the gateway?
// Order at boot: mounts, consoles, watchdog, state record, identity, clock floor; data partition; configuration;
// the network, while the gateway starts. The gateway starts as soon as init_config_ready was called and the data
// partition is decided; the clock is set when init_network_up was called.
// All of it: init's loop only.
#ifndef SLUICE_INIT_CONTROL_H
#define SLUICE_INIT_CONTROL_H

#include "base/base.h"

// --- told by the network and configuration part ---

// The file /run/sluice/sluice.conf is whole. First call: the gateway may start. Later: it is reloaded
// (SIGHUP) when changed is set.
void init_config_ready(bool changed);
// An address and a route are there (or again there, after a change).
void init_network_up(void);
// Time servers, numeric addresses or host names, from DHCP option 42/56 or the configuration ("a.b.c.d",
// "2001:db8::1"); from_config overrides what DHCP says. Strings are copied, at most LIMIT_NTP_SERVERS.
void init_clock_servers(const char *const *servers, u32 count, bool from_config);

// --- told by anybody ---

typedef enum init_end { INIT_POWEROFF, INIT_REBOOT, INIT_HALT } init_end;
// Ordered shutdown; a second call while one is under way makes it immediate. why: logged, kept in the state
// record as the last boot's reason.
void init_shutdown(init_end end, const char *why);

// --- asked ---

typedef struct init_gateway_status {
    bool running, ready, draining;
    u64 ready_ms;        // how long it has been ready without a break; 0 = not
    u32 restarts;        // since boot, unexpected ends
    u32 conns;
    u32 reloads_applied, reloads_refused;
    const char *last_end; // "none", "exit 1", "signal SIGSEGV" ...; static or init's
} init_gateway_status;
void init_gateway_status_get(init_gateway_status *out);
// 32 hexadecimal digits, and the host name made of the first 8: "sluice-xxxxxxxx".
const char *init_machine_id(void);
const char *init_hostname(void);
// Value of key=value on the kernel's command line; NULL when absent, "" for a bare word. Static memory.
const char *init_cmdline_get(const char *key);
// Device path ("/dev/vda3") of the partition with this GPT name, by sysfs; 0 or -ENOENT.
int init_partition_find(const char *partname, char *out, size_t size);
// The data partition is mounted there: the gateway's default data_dir.
#define INIT_DATA_DIR "/var/lib/sluice"
bool init_data_is_mounted(void);
// True when this process is PID 1 and may touch the machine.
bool init_is_real(void);

#endif
