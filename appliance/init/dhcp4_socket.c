// SPDX-License-Identifier: Apache-2.0
// dhcp4_socket.c: see dhcp4_socket.h. UDP checksums of received packets are not checked: on virtual
// networks the sender leaves them to hardware that does not exist, so that a packet socket sees them
// unfinished; the transaction id, our hardware address and the magic cookie must all fit instead.
#include "init/dhcp4_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READS_MAX 32 // packets of one turn that may turn out not to be ours

static int close_with(int fd, int err) {
    close(fd);
    return -err;
}

int dhcp4_socket_raw(u32 ifindex) {
    // Offsets from the IP header, which a SOCK_DGRAM packet socket begins with: protocol UDP, no later
    // fragment, destination port 68 behind a header of any length.
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 6),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 6),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 4, 0),
        BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
        BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, DHCP4_CLIENT_PORT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0xffff),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = code};
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP),
                             .sll_ifindex = (int)ifindex};
    // Protocol 0: nothing arrives before the filter is in place.
    int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0)
        return close_with(fd, errno);
    if (bind(fd, (struct sockaddr *)&to, sizeof(to)) != 0) return close_with(fd, errno);
    return fd;
}

int dhcp4_socket_udp(const char *ifname) {
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(DHCP4_CLIENT_PORT)};
    int on = 1, fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on)) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, ifname, (socklen_t)strlen(ifname)) != 0 ||
        bind(fd, (struct sockaddr *)&own, sizeof(own)) != 0)
        return close_with(fd, errno);
    return fd;
}

// RFC 1071.
static u16 checksum(const u8 *data, size_t len, u32 sum) {
    for (; len > 1; data += 2, len -= 2) sum += (u32)data[0] << 8 | data[1];
    if (len == 1) sum += (u32)data[0] << 8;
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    return (u16)~sum;
}

static void put16(u8 *at, u32 value) {
    at[0] = (u8)(value >> 8);
    at[1] = (u8)value;
}

void dhcp4_ip_wrap(u8 *out, const u8 *data, u32 len) {
    ASSERT(len <= DHCP4_PACKET_BYTES_MAX);
    u32 udp_len = 8 + len;
    memset(out, 0, DHCP4_IP_BYTES);
    out[0] = 0x45;
    out[1] = 0xc0; // DSCP CS6: switches under load keep network control
    put16(out + 2, 20 + udp_len);
    put16(out + 6, 0x4000); // do not fragment
    out[8] = 64;
    out[9] = IPPROTO_UDP;
    memset(out + 16, 0xff, 4);
    put16(out + 10, checksum(out, 20, 0));
    put16(out + 20, DHCP4_CLIENT_PORT);
    put16(out + 22, DHCP4_SERVER_PORT);
    put16(out + 24, udp_len);
    memcpy(out + DHCP4_IP_BYTES, data, len);
    u32 pseudo = IPPROTO_UDP + udp_len + 0xffff + 0xffff; // source 0.0.0.0, destination all ones
    u16 sum = checksum(out + 20, udp_len, pseudo);
    put16(out + 26, sum == 0 ? 0xffff : sum);
}

const u8 *dhcp4_ip_unwrap(const u8 *packet, size_t len, size_t *message_len, u8 source[4]) {
    if (len < 20 || packet[0] >> 4 != 4) return NULL;
    size_t header = (packet[0] & 15u) * 4u, total = (size_t)packet[2] << 8 | packet[3];
    // A frame may be padded behind the packet; it may not be shorter.
    if (header < 20 || total > len || total < header + 8) return NULL;
    if (packet[9] != IPPROTO_UDP || (((u32)packet[6] << 8 | packet[7]) & 0x3fff) != 0) return NULL;
    if (checksum(packet, header, 0) != 0) return NULL;
    const u8 *udp = packet + header;
    size_t udp_len = (size_t)udp[4] << 8 | udp[5];
    if (((u32)udp[2] << 8 | udp[3]) != DHCP4_CLIENT_PORT) return NULL;
    if (udp_len < 8 || udp_len > total - header) return NULL;
    memcpy(source, packet + 12, 4);
    *message_len = udp_len - 8;
    return udp + 8;
}

int dhcp4_send_raw(int fd, u32 ifindex, const u8 *data, u32 len) {
    u8 packet[DHCP4_IP_BYTES + DHCP4_PACKET_BYTES_MAX];
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP),
                             .sll_ifindex = (int)ifindex, .sll_halen = ETH_ALEN};
    memset(to.sll_addr, 0xff, ETH_ALEN);
    dhcp4_ip_wrap(packet, data, len);
    ssize_t n = sendto(fd, packet, DHCP4_IP_BYTES + len, 0, (struct sockaddr *)&to, sizeof(to));
    return n < 0 ? -errno : 0;
}

int dhcp4_send_udp(int fd, const u8 to_addr[4], const u8 *data, u32 len) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(DHCP4_SERVER_PORT)};
    memcpy(&to.sin_addr, to_addr, 4);
    return sendto(fd, data, len, 0, (struct sockaddr *)&to, sizeof(to)) < 0 ? -errno : 0;
}

int dhcp4_receive_raw(int fd, u8 *data, size_t size, u8 source[4]) {
    u8 packet[2048];
    for (int i = 0; i < READS_MAX; i++) {
        size_t len = 0;
        ssize_t n = recv(fd, packet, sizeof(packet), MSG_TRUNC);
        if (n < 0) return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if ((size_t)n > sizeof(packet)) continue;
        const u8 *message = dhcp4_ip_unwrap(packet, (size_t)n, &len, source);
        if (message == NULL || len > size) continue;
        memcpy(data, message, len);
        return (int)len;
    }
    return 0;
}

int dhcp4_receive_udp(int fd, u8 *data, size_t size, u8 source[4]) {
    struct sockaddr_in from;
    for (int i = 0; i < READS_MAX; i++) {
        socklen_t from_len = sizeof(from);
        ssize_t n = recvfrom(fd, data, size, MSG_TRUNC, (struct sockaddr *)&from, &from_len);
        if (n < 0) return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if ((size_t)n > size || n == 0) continue;
        memcpy(source, &from.sin_addr, 4);
        return (int)n;
    }
    return 0;
}
