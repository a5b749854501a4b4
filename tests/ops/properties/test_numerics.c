/* test_numerics.c - docs/numerics.md, line by line, on the CPU and on a device (on_device.h). A row
 * gives the operands and the result as text: numbers as C writes them, "inf", "nan", "-0", complex
 * numbers as re:im. */
#include "ops/support/no_f64.h"
#include "ops/support/on_device.h"

#include <ctype.h>
#include <math.h>

#include "base/number/half.h"
#include "ulp.h"

enum { MOST = 16 };

struct row {
    const char *line; /* the number of the line in the document */
    const char *op;
    enum kl_dtype dtype;
    const char *a, *b, *want;
    enum kl_dtype to; /* the dtype of the result; KEEP: the operands' */
};

#define ALL_FLOATS(line, op, a, b, want)                                        \
    {line, op, KL_F32, a, b, want, KEEP}, {line, op, KL_F64, a, b, want, KEEP}, \
        {line, op, KL_F16, a, b, want, KEEP}, {                                 \
        line, op, KL_BF16, a, b, want, KEEP                                     \
    }
#define ALL_TRUTHS(line, op, a, want)                                                       \
    {line, op, KL_F32, a, NULL, want, KL_BOOL}, {line, op, KL_F64, a, NULL, want, KL_BOOL}, \
        {line, op, KL_F16, a, NULL, want, KL_BOOL}, {                                       \
        line, op, KL_BF16, a, NULL, want, KL_BOOL                                           \
    }
#define KEEP KL_N_DTYPES /* the result has the operands' dtype */

/* The operands: of scatters, a is the slot and b the updates; of element-wise operations, a and b
 * go element by element; of reductions and casts there is a only. A cast is to the type `to`. */
static const struct row rows[] = {
    {"S1", "scatter_add", KL_I8, "100", "100 100", "44", KEEP},
    {"S1", "scatter_add", KL_U8, "200", "100", "44", KEEP},
    {"S1", "scatter_add", KL_I16, "32767", "1 1", "-32767", KEEP},
    {"S1", "scatter_add", KL_U16, "65535", "2", "1", KEEP},
    {"S1", "scatter_add", KL_I32, "2147483647", "1", "-2147483648", KEEP},
    {"S1", "scatter_add", KL_U32, "4294967295", "5", "4", KEEP},
    {"S1", "scatter_add", KL_I64, "9223372036854775807", "1", "-9223372036854775808", KEEP},
    {"S1", "scatter_add", KL_U64, "18446744073709551615", "3", "2", KEEP},
    {"S1", "scatter_prod", KL_I8, "-128", "-1", "-128", KEEP},
    {"S1", "scatter_prod", KL_U16, "65535", "65535", "1", KEEP},
    {"S1", "scatter_prod", KL_I32, "65536", "65536 3", "0", KEEP},
    {"S1", "scatter_prod", KL_I64, "-9223372036854775808", "-1", "-9223372036854775808", KEEP},
    {"S2", "scatter_add", KL_BOOL, "0", "0 0", "0", KEEP},
    {"S2", "scatter_add", KL_BOOL, "1", "1 1", "1", KEEP},
    {"S2", "scatter_add", KL_BOOL, "0", "0 1 0", "1", KEEP},
    {"S3", "scatter_prod", KL_BOOL, "1", "1 1", "1", KEEP},
    {"S3", "scatter_prod", KL_BOOL, "1", "1 0 1", "0", KEEP},
    {"S4", "scatter_max", KL_I8, "-128", "-1 -5", "-1", KEEP},
    {"S4", "scatter_max", KL_U8, "1", "255 127", "255", KEEP},
    {"S4", "scatter_min", KL_I64, "5", "-9223372036854775808 6", "-9223372036854775808", KEEP},
    {"S4", "scatter_max", KL_U64, "1", "18446744073709551615 7", "18446744073709551615", KEEP},
    {"S4", "scatter_min", KL_U32, "4294967295", "2147483648", "2147483648", KEEP},
    {"S5", "scatter_max", KL_BOOL, "0", "0 1", "1", KEEP},
    {"S5", "scatter_min", KL_BOOL, "1", "1 0", "0", KEEP},
    ALL_FLOATS("S6", "scatter_add", "1", "2 nan 3", "nan"),
    ALL_FLOATS("S6", "scatter_prod", "nan", "0 1", "nan"),
    ALL_FLOATS("S6", "scatter_max", "1", "nan inf", "nan"),
    ALL_FLOATS("S6", "scatter_min", "nan", "-inf 4", "nan"),
    ALL_FLOATS("S6", "scatter_max", "nan", "1", "nan"),
    ALL_FLOATS("S7", "scatter_add", "1", "inf -inf", "nan"),
    ALL_FLOATS("S7", "scatter_add", "-inf", "1000 2", "-inf"),
    ALL_FLOATS("S8", "scatter_prod", "0", "inf 1", "nan"),
    ALL_FLOATS("S8", "scatter_prod", "-inf", "-1 -2", "-inf"),
    ALL_FLOATS("S8", "scatter_prod", "-0", "-3 -1", "-0"),
    ALL_FLOATS("S9", "scatter_max", "-0", "0 -0", "0"),
    ALL_FLOATS("S9", "scatter_min", "0", "-0 0", "-0"),
    ALL_FLOATS("S9", "scatter_max", "-inf", "-5 -inf", "-5"),
    ALL_FLOATS("S9", "scatter_min", "inf", "-inf 3", "-inf"),
    ALL_FLOATS("S10", "scatter_add", "-0", "-0 -0", "-0"),
    ALL_FLOATS("S10", "scatter_add", "-0", "0 -0", "0"),
    {"S11", "scatter_max", KL_C64, "1:2", "1:3 0:9", "1:3", KEEP},
    {"S11", "scatter_min", KL_C64, "1:2", "1:-3 2:-9", "1:-3", KEEP},
    {"S11", "scatter_max", KL_C64, "1:2", "1:nan 5:0", "1:nan", KEEP},
    {"S11", "scatter_min", KL_C64, "nan:2", "-7:0", "nan:2", KEEP},
    {"S12", "scatter_add", KL_C64, "1:2", "3:4 5:-7", "9:-1", KEEP},
    {"S12", "scatter_add", KL_C64, "1:2", "nan:4", "nan:6", KEEP},
    {"S12", "scatter_add", KL_C64, "-0:-0", "-0:0", "-0:0", KEEP},
    {"S12", "scatter_prod", KL_C64, "1:2", "3:4", "-5:10", KEEP},
    {"S12", "scatter_prod", KL_C64, "0:1", "0:1 0:1 0:1", "1:-0", KEEP},
    {"S13", "scatter_prod", KL_F32, "0x1p-126", "0.5 0.5", "0x1p-128", KEEP},
    {"S13", "scatter_max", KL_F32, "0", "0x1p-149 -0x1p-149", "0x1p-149", KEEP},
    {"S13", "scatter_min", KL_F32, "0x1p-140", "0x1p-149", "0x1p-149", KEEP},
    {"S13", "scatter_prod", KL_F64, "0x1p-1022", "0.5", "0x1p-1023", KEEP},
    {"S13", "scatter_prod", KL_F16, "0x1p-14", "0.5", "0x1p-15", KEEP},
    {"S13", "scatter_max", KL_BF16, "0", "0x1p-133", "0x1p-133", KEEP},
    {"S14", "scatter_add", KL_F32, "0x1p-149", "0x1p-149 0x1p-148", "0x1p-147", KEEP},
    {"S14", "scatter_add", KL_C64, "0x1p-149:0", "0x1p-149:0x1p-140", "0x1p-148:0x1p-140", KEEP},
    {"S14", "scatter_add", KL_F64, "0x1p-1074", "0x1p-1074", "0x1p-1073", KEEP},
    {"S14", "scatter_add", KL_F16, "0x1p-24", "0x1p-24 0x1p-23", "0x1p-22", KEEP},
    {"S14", "scatter_add", KL_BF16, "0x1p-133", "0x1p-133", "0x1p-132", KEEP},
    {"S15", "scatter", KL_F32, "1", "-0", "-0", KEEP},
    {"S15", "scatter", KL_I8, "1", "-128", "-128", KEEP},
    {"S15", "scatter", KL_C64, "1:1", "-0:inf", "-0:inf", KEEP},
    {"S15", "scatter", KL_I64, "1", "-9223372036854775808", "-9223372036854775808", KEEP},
    {"S15", "scatter", KL_U16, "7", "1 2 3", "3", KEEP}, /* a device gives one of the updates */
    /* 2049 is no float16. 2048 + 1 is rounded to 2048 each time, though 2048 + 4 is 2052. */
    {"S16", "scatter_add", KL_F16, "2048", "1 1 1 1", "2052", KEEP},
    {"S16", "scatter_add", KL_BF16, "256", "1 1 1 1", "260", KEEP},
    {"S16", "scatter_prod", KL_F16, "0x1.004p0", "0x1.004p0", "0x1.008p0", KEEP},

    {"R2", "sum", KL_I8, "127 127 127", NULL, "381", KL_I32},
    {"R2", "sum", KL_I32, "2147483647 1", NULL, "-2147483648", KEEP},
    {"R2", "sum", KL_U64, "18446744073709551615 2", NULL, "1", KEEP},
    {"R2", "sum", KL_BOOL, "1 1 1", NULL, "3", KL_I32},
    ALL_FLOATS("R3", "max", "1 nan inf", NULL, "nan"),
    ALL_FLOATS("R3", "max", "-0 0 -0", NULL, "0"),
    ALL_FLOATS("R3", "min", "0 -0 0", NULL, "-0"),
    ALL_FLOATS("R4", "sum", "1 inf -inf", NULL, "nan"),
    ALL_FLOATS("R4", "sum", "1 nan", NULL, "nan"),
    {"R4", "sum", KL_F32, "0x1p-149 0x1p-149", NULL, "0x1p-148", KEEP},
    {"R4", "sum", KL_F64, "0x1p-1074 0x1p-1074", NULL, "0x1p-1073", KEEP},
    {"R5", "prod", KL_I8, "127 127 127", NULL, "2048383", KL_I32},
    {"R5", "prod", KL_U16, "65535 65535 3", NULL, "4294574083", KL_U32},
    {"R5", "prod", KL_I64, "9223372036854775807 2", NULL, "-2", KEEP},
    {"R5", "prod", KL_BOOL, "1 0 1", NULL, "0", KL_I32},
    ALL_FLOATS("R6", "prod", "-2 inf", NULL, "-inf"),
    ALL_FLOATS("R6", "prod", "2 inf 0", NULL, "nan"),
    ALL_FLOATS("R6", "prod", "1 -0", NULL, "-0"),
    {"R6", "prod", KL_F16, "256 256 0.0625", NULL, "4096", KEEP},
    {"R6", "prod", KL_BF16, "1.0078125 1.0078125 128", NULL, "130", KEEP},
    {"R6", "prod", KL_F32, "0x1p-100 0x1p-49", NULL, "0x1p-149", KEEP},
    ALL_TRUTHS("R7", "all", "1 nan 0x1p-14", "1"),
    ALL_TRUTHS("R7", "all", "1 -0 nan", "0"),
    ALL_TRUTHS("R7", "any", "-0 0 -0", "0"),
    ALL_TRUTHS("R7", "any", "0 nan -0", "1"),
    {"R7", "any", KL_F32, "0 0x1p-149 -0", NULL, "1", KL_BOOL},
    {"R7", "all", KL_I16, "256 -32768 1", NULL, "1", KL_BOOL},
    {"R7", "any", KL_U64, "0 9223372036854775808", NULL, "1", KL_BOOL},
    ALL_FLOATS("R8", "logsumexp", "1 inf -inf", NULL, "inf"),
    ALL_FLOATS("R8", "logsumexp", "inf nan", NULL, "nan"),
    ALL_FLOATS("R8", "logsumexp", "-inf nan", NULL, "nan"),
    ALL_FLOATS("R8", "logsumexp", "-inf -inf", NULL, "-inf"),
    ALL_FLOATS("R8", "logsumexp", "-inf 3", NULL, "3"),
    ALL_FLOATS("R8", "logsumexp", "-1000 1000", NULL, "1000"),
    ALL_FLOATS("R9", "var", "3 5", NULL, "1"),
    ALL_FLOATS("R9", "var", "3 3 3", NULL, "0"),
    ALL_FLOATS("R9", "var", "3 inf 3", NULL, "nan"),
    ALL_FLOATS("R9", "var", "3 nan 3", NULL, "nan"),
    {"R9", "var", KL_U8, "3 5", NULL, "1", KL_F32},

    {"E1", "add", KL_I8, "127 -128", "1 -1", "-128 127", KEEP},
    {"E1", "subtract", KL_U32, "0", "1", "4294967295", KEEP},
    {"E1", "multiply", KL_I64, "9223372036854775807", "2", "-2", KEEP},
    {"E1", "multiply", KL_U16, "65535", "65535", "1", KEEP},
    {"E1", "negative", KL_I32, "-2147483648 5", NULL, "-2147483648 -5", KEEP},
    {"E1", "abs", KL_I8, "-128 -3", NULL, "-128 3", KEEP},
    {"E1", "square", KL_I16, "256 -2", NULL, "0 4", KEEP},
    {"E2", "divide", KL_I32, "7 -1 0 1", "2 0 0 0", "3.5 -inf nan inf", KL_F32},
    {"E2", "divide", KL_U8, "1 255", "0 2", "inf 127.5", KL_F32},
    ALL_FLOATS("E3", "maximum", "-0 nan 1 -inf", "0 1 nan inf", "0 nan nan inf"),
    ALL_FLOATS("E3", "minimum", "-0 nan 1 -inf", "0 1 nan inf", "-0 nan nan -inf"),
    {"E4", "equal", KL_F32, "nan -0 1", "nan 0 2", "0 1 0", KL_BOOL},
    {"E4", "not_equal", KL_F64, "nan -0", "nan 0", "1 0", KL_BOOL},
    {"E4", "less", KL_F16, "nan -0 1", "1 0 nan", "0 0 0", KL_BOOL},
    {"E4", "greater_equal", KL_BF16, "nan -0 1", "1 0 nan", "0 1 0", KL_BOOL},
    {"E5", "add", KL_F32, "0x1p-149", "0x1p-149", "0x1p-148", KEEP},
    {"E5", "multiply", KL_F32, "0x1p-126", "0.5", "0x1p-127", KEEP},
    {"E5", "multiply", KL_F16, "0x1p-14", "0.5", "0x1p-15", KEEP},
    {"E5", "add", KL_F64, "0x1p-1074", "0x1p-1074", "0x1p-1073", KEEP},
    ALL_FLOATS("E6", "negative", "0 -0 inf", NULL, "-0 0 -inf"),
    ALL_FLOATS("E6", "abs", "-0 -inf -1", NULL, "0 inf 1"),

    {"E7", "floor_divide", KL_I32, "7 -7 7 -7 5 -2147483648 -2147483648", "2 2 -2 -2 0 -1 0",
     "3 -4 -4 3 0 -2147483648 0", KEEP},
    {"E7", "remainder", KL_I32, "7 -7 7 -7 5 -2147483648 -2147483648", "2 2 -2 -2 0 -1 0",
     "1 1 -1 -1 0 0 0", KEEP},
    {"E7", "floor_divide", KL_I64, "-9223372036854775808 -9223372036854775808 5", "-1 2 0",
     "-9223372036854775808 -4611686018427387904 0", KEEP},
    {"E7", "remainder", KL_I64, "-9223372036854775808 -9 5", "-1 4 0", "0 3 0", KEEP},
    {"E7", "floor_divide", KL_I8, "-128 -128 -5", "-1 3 0", "-128 -43 0", KEEP},
    {"E7", "remainder", KL_I16, "-32768 -32768 -5", "-1 3 0", "0 1 0", KEEP},
    {"E7", "floor_divide", KL_U8, "255 7 7", "255 2 0", "1 3 0", KEEP},
    {"E7", "remainder", KL_U64, "18446744073709551615 7", "10 0", "5 0", KEEP},
    {"E7", "floor_divide", KL_BOOL, "1 1 0", "1 0 1", "1 0 0", KEEP},
    {"E7", "remainder", KL_BOOL, "1 1 0", "1 0 1", "0 0 0", KEEP},
    ALL_FLOATS("E8", "floor_divide", "7 -7 1 -1 0 inf", "2 2 0 0 0 inf", "3 -4 inf -inf nan nan"),
    ALL_FLOATS("E8", "floor_divide", "inf -inf nan 1 -1 0", "2 -2 1 inf inf -3",
               "nan nan nan 0 -1 -0"),
    {"E8", "floor_divide", KL_F32, "1 5 -1 1 0x1p-149",
     "0x1.99999ap-4 0x1.99999ap-4 0x1.99999ap-4 -0x1.99999ap-4 -0x1p127", "9 49 -10 -10 -1", KEEP},
    {"E8", "floor_divide", KL_F64, "1 5 -1 1 0x1p-1074",
     "0x1.999999999999ap-4 0x1.999999999999ap-4 0x1.999999999999ap-4 -0x1.999999999999ap-4 "
     "-0x1p1023",
     "9 49 -10 -10 -1", KEEP},
    {"E8", "floor_divide", KL_F16, "1 0.0999755859375 4096", "0.0999755859375 1 1.0009765625",
     "10 0 4092", KEEP},
    {"E8", "floor_divide", KL_BF16, "1 -1", "0.10009765625 0.10009765625", "9 -10", KEEP},
    {"E8", "floor_divide", KL_F32, "16777215 0x1.fffffep127 0x1.000002p30",
     "0x1.fffffep-1 0x1p-126 -3", "0x1p24 inf -0x1.555558p28", KEEP},
    ALL_FLOATS("E9", "remainder", "7 -7 7 -7 5.5", "2 2 -2 -2 -2", "1 1 -1 -1 -0.5"),
    ALL_FLOATS("E9", "remainder", "1 inf 1 -1 -0 nan", "0 2 inf inf 3 1", "nan nan 1 inf -0 nan"),
    {"E10", "left_shift", KL_I32, "1 1 1 1 -1", "31 32 100 -1 1", "-2147483648 0 0 0 -2", KEEP},
    {"E10", "right_shift", KL_I32, "-8 -8 8 -8 8", "1 32 32 -1 -1", "-4 -1 0 -1 0", KEEP},
    {"E10", "left_shift", KL_U8, "255 255 1", "1 8 255", "254 0 0", KEEP},
    {"E10", "right_shift", KL_I8, "-128 -128 127", "7 8 8", "-1 -1 0", KEEP},
    {"E10", "right_shift", KL_U16, "65535 65535", "15 16", "1 0", KEEP},
    {"E10", "left_shift", KL_I64, "1 1 3", "63 64 -1", "-9223372036854775808 0 0", KEEP},
    {"E10", "right_shift", KL_U64, "18446744073709551615 5", "63 64", "1 0", KEEP},
    {"E11", "power", KL_I32, "2 3 -3 0 2 1 -1 -1 0", "31 40 3 0 -1 -5 -5 -4 -1",
     "-2147483648 689956897 -27 1 0 1 -1 1 0", KEEP},
    {"E11", "power", KL_U8, "2 3 0 255", "8 9 0 2", "0 227 1 1", KEEP},
    {"E11", "power", KL_I8, "-1 -128 5", "127 1 -128", "-1 -128 0", KEEP},
    {"E11", "power", KL_U64, "3 2", "41 64", "18026252303461234787 0", KEEP},
    ALL_FLOATS("E12", "power", "nan 1 -8 0 -0 inf -2", "0 nan 0.5 -1 -1 -1 3",
               "1 1 nan inf -inf 0 -8"),
    ALL_FLOATS("E13", "sign", "nan -0 0 -inf 5", NULL, "nan 0 0 -1 1"),
    ALL_FLOATS("E14", "round", "0.5 1.5 2.5 -0.5 -0 inf nan", NULL, "0 2 2 -0 -0 inf nan"),
    ALL_FLOATS("E14", "floor", "0.5 -0.5 -0 -inf", NULL, "0 -1 -0 -inf"),
    ALL_FLOATS("E14", "ceil", "0.5 -0.5 -0 inf", NULL, "1 -0 -0 inf"),
    ALL_FLOATS("E15", "exp", "-inf inf 0 nan", NULL, "0 inf 1 nan"),
    ALL_FLOATS("E15", "log", "0 -1 inf 1 nan", NULL, "-inf nan inf 0 nan"),
    ALL_FLOATS("E15", "log1p", "-1 -2 inf -0", NULL, "-inf nan inf -0"),
    ALL_FLOATS("E15", "log2", "0 -1 8", NULL, "-inf nan 3"),
    ALL_FLOATS("E15", "sqrt", "-1 -0 inf", NULL, "nan -0 inf"),
    ALL_FLOATS("E15", "rsqrt", "-1 0 inf 4", NULL, "nan inf 0 0.5"),
    ALL_FLOATS("E15", "sin", "inf nan 0 -0", NULL, "nan nan 0 -0"),
    ALL_FLOATS("E15", "arcsin", "2 nan 0 -0", NULL, "nan nan 0 -0"),
    ALL_FLOATS("E15", "arccosh", "0.5 1 inf", NULL, "nan 0 inf"),
    ALL_FLOATS("E15", "arctanh", "1 -1 2 -0", NULL, "inf -inf nan -0"),
    ALL_FLOATS("E15", "tanh", "inf -inf nan -0", NULL, "1 -1 nan -0"),
    ALL_FLOATS("E15", "sigmoid", "inf -inf nan 0", NULL, "1 0 nan 0.5"),
    ALL_FLOATS("E15", "erf", "inf -inf nan 0", NULL, "1 -1 nan 0"),
    ALL_FLOATS("E15", "expm1", "-inf inf -0", NULL, "-1 inf -0"),
    ALL_FLOATS("E16", "logaddexp", "inf -inf inf nan", "inf -inf -inf 1", "inf -inf inf nan"),
    {"E16", "logaddexp", KL_C64, "1:1 -inf:-inf inf:2", "-inf:-inf 2:-0 5:1", "1:1 2:-0 inf:2",
     KEEP},
    {"E17", "to_fp8", KL_F32, "448 465 inf -inf nan -0 0x1p-9 0x1p-10 17 19", NULL,
     "126 126 126 254 127 128 1 0 88 90", KL_U8},
    {"E17", "to_fp8", KL_F16, "448 inf nan 1.1875", NULL, "126 126 127 58", KL_U8},
    {"E17", "to_fp8", KL_F32, "nan -nan -1", NULL, "127 127 184", KL_U8},
    {"E17", "to_fp8", KL_F64, "nan -nan -1", NULL, "127 127 184", KL_U8},
    {"E17", "to_fp8", KL_F16, "nan -nan -1", NULL, "127 127 184", KL_U8},
    {"E17", "to_fp8", KL_BF16, "nan -nan -1", NULL, "127 127 184", KL_U8},
    ALL_FLOATS("E18", "clip", "nan -5 5 2", NULL, "nan 1 3 2"),
    ALL_FLOATS("E18", "crossed clip", "nan -5 5 2", NULL, "nan 1 1 1"),

    {"C1", "cast", KL_F32, "1.9 -1.9 1e10 -1e10 nan inf -inf", NULL,
     "1 -1 2147483647 -2147483648 0 2147483647 -2147483648", KL_I32},
    {"C1", "cast", KL_F32, "300 -1 nan 254.9", NULL, "255 0 0 254", KL_U8},
    {"C1", "cast", KL_F64, "1e30 -1e30 nan", NULL, "9223372036854775807 -9223372036854775808 0",
     KL_I64},
    {"C1", "cast", KL_F32, "inf -5 3e19", NULL, "18446744073709551615 0 18446744073709551615",
     KL_U64},
    {"C1", "cast", KL_F16, "inf -inf 129 nan", NULL, "127 -128 127 0", KL_I8},
    {"C1", "cast", KL_BF16, "1e30 -4", NULL, "65535 0", KL_U16},
    {"C2", "cast", KL_I32, "-1 300 65536", NULL, "255 44 0", KL_U8},
    {"C2", "cast", KL_U64, "18446744073709551615 2147483648", NULL, "-1 -2147483648", KL_I32},
    {"C2", "cast", KL_I8, "-1", NULL, "18446744073709551615", KL_U64},
    {"C3", "cast", KL_F32, "nan -0 0.5 0x1p-149", NULL, "1 0 1 1", KL_BOOL},
    {"C3", "cast", KL_I64, "4294967296 0", NULL, "1 0", KL_BOOL},
    {"C3", "cast", KL_C64, "0:1 0:0", NULL, "1 0", KL_BOOL},
    {"C4", "cast", KL_F32, "65520 65519 0x1p-24 0x1p-25 0x1.8p-25 -0", NULL,
     "inf 65504 0x1p-24 0 0x1p-24 -0", KL_F16},
    {"C4", "cast", KL_F32, "0x1.01p0 0x1.03p0 3.4e38", NULL, "1 0x1.04p0 inf", KL_BF16},
    {"C4", "cast", KL_F64, "0x1.000001p0 1e40 0x1p-149", NULL, "1 inf 0x1p-149", KL_F32},
    {"C5", "cast", KL_I32, "16777217 16777219", NULL, "16777216 16777220", KL_F32},
    {"C5", "cast", KL_U64, "18446744073709551615", NULL, "0x1p64", KL_F64},
    {"C5", "cast", KL_I32, "2049 70000", NULL, "2048 inf", KL_F16},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* ---- words to elements ---- */

static void put_float(enum kl_dtype t, double x, void *to) {
    float f = (float)x;
    uint16_t h = t == KL_F16 ? kl_f16_store(f) : kl_bf16_store(f);
    if (t == KL_F64)
        memcpy(to, &x, 8);
    else if (t == KL_F32 || t == KL_C64)
        memcpy(to, &f, 4);
    else
        memcpy(to, &h, 2);
}

/* Reads the numbers in a text as elements of dtype t; returns their number. */
static int parse(const char *words, enum kl_dtype t, char *to) {
    int n = 0;
    size_t item = kl_dtype_size(t);
    for (const char *p = words; *p; n++, to += item) {
        char *end = NULL;
        assert_true(n < MOST);
        if (kl_dtype_is_float(t) || t == KL_C64) {
            put_float(t, strtod(p, &end), to);
            if (t == KL_C64) put_float(t, strtod(end + 1, &end), to + 4);
        } else {
            uint64_t v = *p == '-' ? (uint64_t)strtoll(p, &end, 10) : strtoull(p, &end, 10);
            memcpy(to, &v, item);
        }
        for (p = end; *p == ' '; p++) {
        }
    }
    return n;
}

static struct kl_array *array_of(const char *words, enum kl_dtype t, int ndim) {
    char v[MOST * 8];
    struct kl_array *a;
    int dims[2] = {parse(words, t, v), 1};
    OK(kl_array_new_data(&a, v, t, ndim, dims, &err));
    return a;
}

static bool is_nan(enum kl_dtype t, const char *p) {
    uint32_t w = 0;
    uint64_t d = 0;
    memcpy(&w, p, t == KL_F16 || t == KL_BF16 ? 2 : 4);
    if (t == KL_F64) memcpy(&d, p, 8);
    switch (t) {
    case KL_F16: return (w & 0x7fff) > 0x7c00;
    case KL_BF16: return (w & 0x7fff) > 0x7f80;
    case KL_F32: return (w & 0x7fffffff) > 0x7f800000;
    case KL_F64: return (d << 1) > UINT64_C(0x7ff) << 53;
    default: return false;
    }
}

/* ---- running ---- */

typedef int unary_fn(struct kl_array **, struct kl_array *, struct kl_stream *, struct kl_error **);
typedef int binary_fn(struct kl_array **, struct kl_array *, struct kl_array *, struct kl_stream *,
                      struct kl_error **);
static int rounded(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err) {
    return kl_round(out, a, 0, s, err);
}
static int clip_to(struct kl_array **out, struct kl_array *a, double from, double to,
                   struct kl_stream *s, struct kl_error **why) {
    struct kl_array *low, *high;
    OK(kl_array_new_scalar(&low, from, a->t.dtype, &err));
    OK(kl_array_new_scalar(&high, to, a->t.dtype, &err));
    int rc = kl_clip(out, a, low, high, s, why);
    kl_array_release(low);
    kl_array_release(high);
    return rc;
}
static int clipped(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err) {
    return clip_to(out, a, 1, 3, s, err);
}
static int crossed(struct kl_array **out, struct kl_array *a, struct kl_stream *s,
                   struct kl_error **err) {
    return clip_to(out, a, 3, 1, s, err);
}

static const struct {
    const char *name;
    unary_fn *fn;
} unaries[] = {
#define KL_OP(...)
#define KL_BINARY(...)
#define KL_UNARY(ID, name, builder, ...) {#name, builder},
#include "base/op/op_list.def"
    {"round", rounded}, {"clip", clipped}, {"crossed clip", crossed}};
static const struct {
    const char *name;
    binary_fn *fn;
} binaries[] = {
#define KL_OP(...)
#define KL_UNARY(...)
#define KL_BINARY(ID, name, builder, ...) {#name, builder},
#include "base/op/op_list.def"
};
static int var_0(struct kl_array **out, struct kl_array *a, bool keepdims, struct kl_stream *s,
                 struct kl_error **err) {
    return kl_var(out, a, keepdims, 0, s, err);
}
static const struct {
    const char *name;
    kl_reduce_fn *fn;
} reductions[] = {{"sum", kl_sum}, {"max", kl_max},   {"min", kl_min}, {"all", kl_all},
                  {"any", kl_any}, {"prod", kl_prod}, {"var", var_0},  {"logsumexp", kl_logsumexp}};
#define EACH(table) for (size_t i = 0; i < sizeof table / sizeof *table; i++)

static int scatter_mode(const struct row *r) {
    EACH(scatters)
    if (strcmp(r->op, scatter_names[i]) == 0) return (int)i;
    return -1;
}

static struct kl_array *result_of(const struct row *r, struct kl_stream *s) {
    int mode = scatter_mode(r);
    struct kl_array *a = array_of(r->a, r->dtype, 1), *b = NULL, *out = NULL;
    if (mode >= 0) {
        static const int zeros[MOST];
        struct kl_array *index;
        b = array_of(r->b, r->dtype, 2);
        OK(kl_array_new_data(&index, zeros, KL_I32, 1, b->t.dims, &err));
        OK(scatters[mode](&out, a, index, b, 0, s, &err));
        kl_array_release(index);
    } else if (strcmp(r->op, "cast") == 0) {
        OK(kl_astype(&out, a, r->to, s, &err));
    } else if (r->b) {
        b = array_of(r->b, r->dtype, 1);
        EACH(binaries)
        if (strcmp(r->op, binaries[i].name) == 0) OK(binaries[i].fn(&out, a, b, s, &err));
    } else {
        EACH(unaries)
        if (strcmp(r->op, unaries[i].name) == 0) OK(unaries[i].fn(&out, a, s, &err));
        EACH(reductions)
        if (strcmp(r->op, reductions[i].name) == 0) OK(reductions[i].fn(&out, a, false, s, &err));
    }
    assert_non_null(out);
    kl_array_release(a);
    kl_array_release(b);
    return out;
}

static bool same_element(enum kl_dtype t, const char *got, const char *want) {
    enum kl_dtype part = t == KL_C64 ? KL_F32 : t;
    size_t bytes = kl_dtype_size(part);
    for (size_t k = 0; k < kl_dtype_size(t); k += bytes)
        if (memcmp(got + k, want + k, bytes) != 0 &&
            !(is_nan(part, got + k) && is_nan(part, want + k)))
            return false;
    return true;
}

static double float_at(enum kl_dtype t, const char *p) {
    uint16_t h;
    float f;
    double d;
    switch (t) {
    case KL_F64: memcpy(&d, p, 8); return d;
    case KL_F32: memcpy(&f, p, 4); return (double)f;
    default: memcpy(&h, p, 2); return (double)(t == KL_F16 ? kl_f16_load(h) : kl_bf16_load(h));
    }
}

/* Whether the document allows this result on a device as well. */
static bool also_allowed(const struct row *r, const char *got) {
    char v[MOST * 8];
    if (strcmp(r->line, "S14") == 0 && device_sums_flush() &&
        (r->dtype == KL_F32 || r->dtype == KL_C64)) {
        memset(v, 0, sizeof v);
        return memcmp(got, v, kl_dtype_size(r->dtype)) == 0;
    }
    if (strcmp(r->line, "S15") == 0) {
        int n = parse(r->b, r->dtype, v);
        for (int i = 0; i < n; i++)
            if (same_element(r->dtype, got, v + (size_t)i * kl_dtype_size(r->dtype))) return true;
    }
    return false;
}

static void check_row(const struct row *r, struct kl_array *out, struct kl_stream *s) {
    enum kl_dtype t = r->to == KEEP ? r->dtype : r->to;
    char want[MOST * 8], what[160];
    struct kl_array *keep;
    snprintf(what, sizeof what, "%s: %s of %s, %s and %s on %s", r->line, r->op,
             kl_dtype_name(r->dtype), r->a, r->b ? r->b : "nothing",
             s == cpu_stream ? "the CPU" : device_name());
    assert_int_equal(out->t.dtype, t);
    if (s == gpu_stream && refused_for_f64(out)) {
        kl_array_release(out);
        return;
    }
    const char *got = read_elements(out, s, &keep, what);
    int n = parse(r->want, t, want);
    assert_int_equal(out->t.size, n);
    for (int i = 0; i < n; i++) {
        const char *g = got + (size_t)i * kl_dtype_size(t);
        uint64_t bits = 0;
        memcpy(&bits, g, kl_dtype_size(t));
        if (!same_element(t, g, want + (size_t)i * kl_dtype_size(t)) &&
            (s == cpu_stream || !also_allowed(r, g)))
            fail_msg("%s: element %d is %#llx, not %s", what, i, (unsigned long long)bits, r->want);
    }
    kl_array_release(keep);
    kl_array_release(out);
}

static void on_the_cpu(void **state) {
    for (int i = 0; i < N_ROWS; i++)
        check_row(&rows[i], result_of(&rows[i], cpu_stream), cpu_stream);
}

/* Where kernels are sampled, each operation of each line runs at least once. */
static void on_the_device(void **state) {
    for (int i = 0; i < N_ROWS; i++) {
        bool first = i == 0 || strcmp(rows[i].line, rows[i - 1].line) != 0 ||
                     strcmp(rows[i].op, rows[i - 1].op) != 0;
        if (takes_case(4) || first)
            check_row(&rows[i], result_of(&rows[i], gpu_stream), gpu_stream);
    }
}

/* Line R1 of the document, for lengths that lead to every method of the kernels. */
static void sums_are_within_the_bound(void **state) {
    static const int lengths[] = {1, 7, 1000, 300001};
    static const enum kl_dtype dtypes[] = {KL_F32, KL_F64, KL_F16, KL_BF16};
    struct kl_stream *streams[] = {cpu_stream, gpu_stream};
    uint64_t rng = 1;
    for (size_t l = 0; l < 4; l++)
        for (size_t d = 0; d < 4; d++) {
            enum kl_dtype t = dtypes[d];
            size_t item = kl_dtype_size(t);
            int n = lengths[l];
            char *v = malloc((size_t)n * item);
            long double sum = 0, magnitudes = 0;
            for (int i = 0; i < n; i++) {
                kl_test_random(&rng);
                double x = ((double)(rng >> 33) / 0x1p31 - 0.5) / 64;
                char *p = v + (size_t)i * item;
                put_float(t, x, p);
                double y = float_at(t, p);
                sum += y;
                magnitudes += fabs(y);
            }
            const size_t n_streams = t == KL_F64 && device_lacks_f64() ? 1 : 2;
            for (size_t k = 0; k < n_streams; k++) {
                struct kl_array *x, *y, *keep;
                OK(kl_array_new_data(&x, v, t, 1, &n, &err));
                OK(kl_sum(&y, x, false, streams[k], &err));
                const char *p = read_elements(y, streams[k], &keep, "sum");
                double got = float_at(t, p), u = t == KL_F64 ? 0x1p-53 : 0x1p-24,
                       last = kl_test_epsilon(t) / 2;
                long double bound = n * (long double)u * magnitudes,
                            room = bound + last * (fabsl(sum) + bound);
                if (fabsl(got - sum) > room)
                    fail_msg("sum of %d %s: %.17g, exactly %.17Lg, bound %.3Lg", n,
                             kl_dtype_name(t), got, sum, room);
                kl_array_release(x);
                kl_array_release(y);
                kl_array_release(keep);
            }
            free(v);
        }
}

/* Every numbered line of the document has a row, and every row a line. */
static void the_document_and_the_rows_agree(void **state) {
    FILE *f = fopen("docs/numerics.md", "r");
    if (!f) skip(); /* a bundle of tests for another machine has no documents */
    char line[1024], known[64][8];
    int n = 0;
    while (fgets(line, sizeof line, f)) {
        if (line[0] != '|' || !isupper((unsigned char)line[2]) || !isdigit((unsigned char)line[3]))
            continue;
        assert_true(n < 64);
        assert_int_equal(sscanf(line + 2, "%7s", known[n++]), 1);
    }
    fclose(f);
    assert_true(n > 20);
    for (int k = 0; k < n; k++) {
        bool found = strcmp(known[k], "R1") == 0; /* line R1 has a test of its own */
        for (int i = 0; i < N_ROWS && !found; i++) found = strcmp(known[k], rows[i].line) == 0;
        if (!found) fail_msg("line %s of docs/numerics.md has no row", known[k]);
    }
    for (int i = 0; i < N_ROWS; i++) {
        bool found = false;
        for (int k = 0; k < n && !found; k++) found = strcmp(known[k], rows[i].line) == 0;
        if (!found) fail_msg("no line %s in docs/numerics.md", rows[i].line);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_cpu),
        cmocka_unit_test(on_the_device),
        cmocka_unit_test(sums_are_within_the_bound),
        cmocka_unit_test(the_document_and_the_rows_agree),
    };
    return cmocka_run_group_tests(tests, open_streams, NULL);
}
