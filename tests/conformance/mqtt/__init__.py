# SPDX-License-Identifier: Apache-2.0
"""MQTT 3.1, 3.1.1 and 5.0 as bytes, for tests: wire.py writes and judges packets, client.py is a client that
does only what the test says, statements.py knows the numbered statements of the standards.

No MQTT library is used, so that a fault of a library can not hide one of the broker's.
"""
