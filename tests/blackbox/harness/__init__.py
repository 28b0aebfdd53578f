# SPDX-License-Identifier: Apache-2.0
"""The black-box harness: runs the gateway as a process and speaks to it with exact bytes.

Nothing in here knows the inside of the gateway: it uses the command line, the configuration file, the
admin API, signals, and sockets. Only Debian's python3 and python3-pytest are needed.
"""
