#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The appliance's long tests: those that are marked nightly. Arguments as for suite.sh.
QEMU_MARK=nightly exec "$(dirname "$0")/suite.sh" "$@"
