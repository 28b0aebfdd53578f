# SPDX-License-Identifier: Apache-2.0
#
# Compiles a list of C files into one static library: for the dependencies whose own build systems ask for more
# than that. CC, AR, CFLAGS, SRC (root of the sources), SRCS (relative to it), OBJ, LIB.

OBJS := $(SRCS:%.c=$(OBJ)/%.o)

$(LIB): $(OBJS)
	@mkdir -p $(@D)
	$(AR) rcD $@ $(OBJS)

$(OBJ)/%.o: $(SRC)/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<
