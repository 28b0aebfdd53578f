// SPDX-License-Identifier: Apache-2.0
// tls_kernel.c: system calls of kernel TLS.
#include "net/tls_kernel.h"

#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#ifndef SOL_TLS
#define SOL_TLS 282
#endif
#ifndef TCP_ULP
#define TCP_ULP 31
#endif

_Static_assert(sizeof(struct tls12_crypto_info_aes_gcm_256) <= TLS_KERNEL_INFO_BYTES &&
                   sizeof(struct tls12_crypto_info_chacha20_poly1305) <= TLS_KERNEL_INFO_BYTES,
               "every structure fits");

int tls_kernel_attach(int fd) {
    return setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) < 0 ? -errno : 0;
}

u32 tls_kernel_info(const tls_kernel_keys *keys, u8 out[TLS_KERNEL_INFO_BYTES]) {
    // All structures of the family are: version, cipher, iv, key, salt, number of the record.
    const struct tls_crypto_info info = {.version = TLS_1_2_VERSION, .cipher_type = keys->cipher};
    u32 at = sizeof(info);
    memcpy(out, &info, sizeof(info));
    memcpy(out + at, keys->iv, keys->iv_bytes);
    at += keys->iv_bytes;
    memcpy(out + at, keys->key, keys->key_bytes);
    at += keys->key_bytes;
    memcpy(out + at, keys->salt, keys->salt_bytes);
    at += keys->salt_bytes;
    memcpy(out + at, keys->sequence, sizeof(keys->sequence));
    return at + (u32)sizeof(keys->sequence);
}

int tls_kernel_set_keys(int fd, bool sending, const tls_kernel_keys *keys) {
    u8 info[TLS_KERNEL_INFO_BYTES];
    u32 len = tls_kernel_info(keys, info);
    int result = setsockopt(fd, SOL_TLS, sending ? TLS_TX : TLS_RX, info, len) < 0 ? -errno : 0;
    explicit_bzero(info, sizeof(info));
    return result;
}

int tls_kernel_read_control(int fd, u8 *type, u8 *out, u32 room) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(u8))];
    } control;
    struct iovec iov = {out, room};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    ssize_t got = recvmsg(fd, &msg, MSG_DONTWAIT);
    if (got < 0) return -errno;
    const struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
    bool known = head != NULL && head->cmsg_level == SOL_TLS && head->cmsg_type == TLS_GET_RECORD_TYPE;
    *type = known ? *CMSG_DATA(head) : TLS_DATA;
    return (int)got;
}

int tls_kernel_send_control(int fd, u8 type, const u8 *data, u32 len) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(u8))];
    } control = {.bytes = {0}};
    struct iovec iov = {(void *)(uintptr_t)data, len};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
    head->cmsg_level = SOL_TLS;
    head->cmsg_type = TLS_SET_RECORD_TYPE;
    head->cmsg_len = CMSG_LEN(sizeof(u8));
    *CMSG_DATA(head) = type;
    return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}
