# SPDX-License-Identifier: Apache-2.0
"""Systems that are no good, to be sent as updates. What a BIOS starts has to look like a Linux kernel; what a UEFI starts is
GRUB with a script of ours, which can start the product's own kernel with words that make it fail."""
import os
import struct

from . import image
from .helper import helper
from .overlay import overlay
from .vm import emulation_append

# The words of image/grub.cfg for a system on trial in slot b.
TRIAL = "sluice.slot=b sluice.loader=grub sluice.try=1"
SETUP_SECTORS = 1
SETUP_BYTES = 512 * (1 + SETUP_SECTORS)
# Printed by 32-bit code wherever it was loaded: text to the first serial port, a byte when the port has room.
PRINT = bytes.fromhex("e800000000"      # call next
                      "5e"              # next: pop esi
                      "83c624"          # add esi, text - next
                      "66bafd03"        # more: mov dx, 0x3fd
                      "ec" "a820"       # wait: in al, dx; test al, 0x20
                      "74fb"            # jz wait
                      "66baf803"        # mov dx, 0x3f8
                      "ac" "84c0"       # lodsb; test al, al
                      "7403"            # jz end
                      "ee" "ebeb")      # out dx, al; jmp more
RESTART = bytes.fromhex("66baf90c" "b006" "ee")  # end: mov dx, 0xcf9; mov al, 6; out dx, al
STAND = bytes.fromhex("fa" "f4" "ebfc")          # cli; hlt; jmp


def bios_system(path, text, restart):
    """A file with the header of a Linux kernel (Documentation/arch/x86/boot.rst) whose code tells text and restarts the
    machine or stands still."""
    code = PRINT + (RESTART if restart else b"\x90" * len(RESTART)) + STAND
    assert len(code) == 5 + 0x24, len(code)
    body = (code + text.encode() + b"\r\n\0").ljust(4096, b"\x90")
    setup = bytearray(SETUP_BYTES)
    setup[0:2] = b"MZ"
    setup[0x1f1] = SETUP_SECTORS
    struct.pack_into("<H", setup, 0x1fe, 0xaa55)
    # A jump over the header, version 2.06, loaded high at 1 MiB, a command line of up to 4 KiB.
    struct.pack_into("<BB4sH", setup, 0x200, 0xeb, 0x3a, b"HdrS", 0x206)
    setup[0x211] = 1
    struct.pack_into("<I", setup, 0x214, 0x100000)
    struct.pack_into("<I", setup, 0x238, 4095)
    with open(path, "wb") as f:
        f.write(setup + body)
    return path


def efi_panic(directory, arch):
    """The product's kernel without the init it is told to start: the panic is its own, and so is what follows."""
    return image.efi_program(directory, arch, "echo a system that panics\n"
                             f"chainloader ($root)/sluice/a.efi {TRIAL} {emulation_append(arch)} rdinit=/none\nboot\n")


def efi_meddled(directory, arch, disk, meddle, words=""):
    """The product's kernel with a program beside its gateway that does it harm (helpers/meddle.c), as an archive on the ESP."""
    archive = overlay(os.path.join(directory, "meddle.cpio"), {"meddle": helper("meddle", arch)})
    with open(archive, "rb") as f:
        image.write_file(disk, "/sluice/meddle", f.read())
    return image.efi_program(directory, arch, f"echo a system with meddle={meddle}\n"
                             f"linux ($root)/sluice/a.efi {TRIAL} {emulation_append(arch)} rdinit=/meddle "
                             f"meddle={meddle} {words}\ninitrd ($root)/sluice/meddle\nboot\n")


def efi_hang(directory, arch):
    return image.efi_program(directory, arch, "echo a system that stands still\nsleep 100000\n")
