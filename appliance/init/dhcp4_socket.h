// SPDX-License-Identifier: Apache-2.0
// dhcp4_socket.h: the two sockets of a DHCP client. Without an address of ours: a packet socket, with the
// IP and UDP headers made here. With one: an ordinary UDP socket on port 68, so that renewals go through
// the kernel's routes and an answer never meets a closed port. Init's loop only.
#ifndef SLUICE_INIT_DHCP4_SOCKET_H
#define SLUICE_INIT_DHCP4_SOCKET_H

#include "init/dhcp4.h"

// Non-blocking, close-on-exec. Return the descriptor or -errno. The filter lets only UDP to port 68 in.
int dhcp4_socket_raw(u32 ifindex);
int dhcp4_socket_udp(const char *ifname);
// Return 0 or -errno.
int dhcp4_send_raw(int fd, u32 ifindex, const u8 *data, u32 len);
int dhcp4_send_udp(int fd, const u8 to[4], const u8 *data, u32 len);
// The next DHCP message. Returns its bytes, 0 = none (or nothing but other packets), or -errno.
int dhcp4_receive_raw(int fd, u8 *data, size_t size, u8 source[4]);
int dhcp4_receive_udp(int fd, u8 *data, size_t size, u8 source[4]);

// Pure, for tests: an IP packet around a DHCP message, and back. dhcp4_ip_unwrap returns where the message
// lies, NULL when it is not UDP to port 68.
#define DHCP4_IP_BYTES 28u // IPv4 and UDP headers
void dhcp4_ip_wrap(u8 *out, const u8 *data, u32 len); // out: DHCP4_IP_BYTES + len
const u8 *dhcp4_ip_unwrap(const u8 *packet, size_t len, size_t *message_len, u8 source[4]);

#endif
