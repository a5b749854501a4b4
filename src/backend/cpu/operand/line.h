/* line.h - the cache line, to which memory of kernels is aligned. */
#pragma once

enum { KL_LINE = 64 }; /* bytes */
