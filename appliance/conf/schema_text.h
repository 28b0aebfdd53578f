// SPDX-License-Identifier: Apache-2.0
// schema_text.h: what a text setting must look like beyond its length. Each check returns NULL when
// the text is acceptable, else what is wrong with it. Pure; any thread. (MQTT 5.0 section 4.7 for
// topics.)
#ifndef SLUICE_CONF_SCHEMA_TEXT_H
#define SLUICE_CONF_SCHEMA_TEXT_H

const char *text_check_path(const char *text);
const char *text_check_optional_path(const char *text);
const char *text_check_syslog(const char *text);
const char *text_check_reach(const char *text);
const char *text_check_keys(const char *text);
const char *text_check_up_topic(const char *text);
const char *text_check_down_topic(const char *text);
const char *text_check_ws_path(const char *text);
const char *text_check_origin(const char *text); // RFC 6454 section 6.2, or "*"
const char *text_check_peer(const char *text);   // ops/peer.h
const char *text_check_range(const char *text);  // conf/cidr.h
// conf/uplink.c
const char *text_check_name(const char *text);
const char *text_check_client_id(const char *text);
const char *text_check_prefix(const char *text);
const char *text_check_status_topic(const char *text);

#endif
