// SPDX-License-Identifier: Apache-2.0
// help.c: what `sluice pub --help` and `sluice sub --help` print; docs/clients.md is the long form.
#include "client/help.h"

#define COMMON \
    "  -h HOST, -p PORT      broker; default 127.0.0.1, 1883, with TLS 8883\n" \
    "  -L URL                mqtt[s]://[USER[:PASSWORD]@]HOST[:PORT][/TOPIC]\n" \
    "  --cafile FILE         TLS: whom the broker's certificate comes from; default: the system's list\n" \
    "  --cert FILE, --key FILE   TLS: own certificate;  --insecure: the broker's may have any name\n" \
    "  -V VERSION            311 (default), 5, 31; options of 5.0 take 5 by themselves\n" \
    "  -q QOS                0 (default), 1, 2\n" \
    "  -i ID, -I PREFIX      client id, or PREFIX and the process id; default: the broker's choice\n" \
    "  -k SECONDS            keep alive; default 60\n" \
    "  -u USER, -P PASSWORD\n" \
    "  -c                    keeps the session: no clean start\n" \
    "  -x SECONDS            session expiry interval (5.0)\n" \
    "  -D PACKET NAME VALUE  a property (5.0): PACKET is connect, will, publish, subscribe or\n" \
    "                        disconnect; user-property takes a name and a value; repeatable\n" \
    "  --will-topic TOPIC, --will-payload TEXT, --will-qos QOS, --will-retain, --will-delay SECONDS\n" \
    "  --connect-timeout SECONDS   default 10\n" \
    "  -d                    says each packet on stderr;  --quiet: no error messages\n"

#define STATUSES \
    "Exit status: 0 done; 1 not reached, connection lost, a file that can not be read or written;\n" \
    "2 wrong command line; 3 refused by the broker, whose reason is named"

const char client_help_pub[] =
    "usage: sluice pub -t TOPIC (-m TEXT | -f FILE | -l | -s | -n) [options]\n"
    "\n"
    "Publishes to an MQTT broker, and ends when all is acknowledged as its QoS asks.\n"
    "\n"
    "  -t TOPIC              the topic\n"
    "  -m TEXT               the payload\n"
    "  -f FILE               a file as the payload;  -s: all of stdin;  -n: an empty payload\n"
    "  -l                    each line of stdin is a message, sent when it comes\n"
    "  -r                    retained\n"
    "  --repeat N, --repeat-delay SECONDS   publish N times\n" COMMON "\n" STATUSES ".\n";

const char client_help_sub[] =
    "usage: sluice sub -t FILTER [-t FILTER ...] [options]\n"
    "\n"
    "Subscribes, and prints messages as they come.\n"
    "\n"
    "  -t FILTER             topic filter, repeatable; $share/NAME/FILTER too\n"
    "  -T FILTER             messages on such topics are not shown, repeatable\n"
    "  -v                    topic and payload;  -j: a line of JSON with all properties\n"
    "  -F FORMAT             %t topic, %p payload, %x hex, %l length, %q QoS, %r retained, %m id,\n"
    "                        %j JSON, %U seconds, %I ISO time, 5.0: %A alias, %C content type,\n"
    "                        %D correlation data, %E expiry, %F format indicator, %P user\n"
    "                        properties, %R response topic, %S subscription ids; %%, \\n \\t \\0 \\\\\n"
    "  -N                    no newline behind the payload\n"
    "  -C N                  ends after N messages;  -W SECONDS: ends after that time (status 27)\n"
    "  -E                    ends when subscribed\n"
    "  -R                    no retained messages;  --retained-only: none but retained\n"
    "  --no-local, --retain-as-published, --retain-handling always|new|never   (5.0)\n"
    "  --reconnect           connects again when the connection is lost, 1 to 30 s later\n" COMMON
    "\n" STATUSES "; 27 -W ended it.\n";
