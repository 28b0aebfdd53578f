// SPDX-License-Identifier: Apache-2.0
// tls_kernel.h: kernel TLS (Documentation/networking/tls.rst; Linux 4.13 sending, 4.17 receiving, 5.11 ChaCha20): the
// socket takes over the record layer. Afterwards send(2) and recv(2) carry plaintext; recv fails with EIO at a record
// that is no data, which then is read with recvmsg(2).
#ifndef SLUICE_NET_TLS_KERNEL_H
#define SLUICE_NET_TLS_KERNEL_H

#include "net/tls_record.h"

// Puts the upper layer protocol "tls" on a connected socket. Returns 0 or -errno: -ENOENT: the kernel has no TLS.
// Without keys it changes nothing, so a later failure leaves a socket that works as before.
int tls_kernel_attach(int fd);
// Gives it the keys of one direction (sending: TLS_TX, else TLS_RX). Nothing may be on its way in that direction.
// Returns 0 or -errno.
int tls_kernel_set_keys(int fd, bool sending, const tls_kernel_keys *keys);
// The bytes setsockopt gets, for tests: returns how many.
#define TLS_KERNEL_INFO_BYTES 64u
u32 tls_kernel_info(const tls_kernel_keys *keys, u8 out[TLS_KERNEL_INFO_BYTES]);
// Reads the record that recv(2) refused with EIO. Returns the bytes read and the record's type, or -errno.
int tls_kernel_read_control(int fd, u8 *type, u8 *out, u32 room);
// Sends a record that is no data, without waiting. Returns 0 or -errno.
int tls_kernel_send_control(int fd, u8 type, const u8 *data, u32 len);

#endif
