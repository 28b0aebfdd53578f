# SPDX-License-Identifier: Apache-2.0
"""Writes configuration files. Settings are plain Python values; durations and sizes are given as text
("250ms", "64k") in the gateway's own units, so that a test reads like the file it stands for."""


def _value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(v) for v in value) + "]"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _block(settings, indent):
    text = ""
    for key, value in settings.items():
        if isinstance(value, dict):
            text += f"{indent}{key} {{\n{_block(value, indent + '    ')}{indent}}}\n"
        else:
            text += f"{indent}{key} = {_value(value)};\n"
    return text


def render(settings, sections, listeners):
    """settings: top-level keys. sections: name -> dict. listeners: name -> dict."""
    text = _block(settings, "")
    for name, members in sections.items():
        text += f"{name} {{\n{_block(members, '    ')}}}\n"
    for name, members in listeners.items():
        members = {"protocol": "frame", "bind": "127.0.0.1:0", **members}
        text += f"listener {name} {{\n{_block(members, '    ')}}}\n"
    return text


ECHO = {"mode": "echo"}
ACK = {"mode": "ack"}
PUBLISH = {"mode": "publish"}
