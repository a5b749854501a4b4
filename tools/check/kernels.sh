#!/usr/bin/env bash
# kernels.sh - every kernel's first statement is BEGIN(), or NEXT_MAY_START() and later AFTER_EARLIER(): until then kernels before it may
# still run (src/backend/gpu/kernels/prelude.kl). Sources that are made at run time say it where they are made.
# And every pointer of the dialect says where it points to, which Metal wants: GLOBAL, SHARED_PTR, PARAM_PTR, PRIVATE or CONSTANT.
set -u
cd "$(dirname "$0")/../.."
bad=0
kernels=0
for file in src/backend/gpu/kernels/*.kl; do
    case $file in */prelude*.kl) continue ;; esac
    while IFS=: read -r line what; do
        kernels=$((kernels + 1))
        [ "$what" = good ] && continue
        echo "$file:$line: the kernel does not begin with BEGIN()"
        bad=1
    done < <(awk '
        /^(KERNEL|KERNEL_RESIDENT|TILES_KERNEL)\(|^extern "C" __global__/ { at = NR; body = "" ; in_head = 1; both = 0 }
        in_head { text = text " " $0 }
        in_head && /\{[ \t]*$/ { in_head = 0; in_body = 1; text = ""; next }
        in_body == 1 && /^[ \t]*(\/\*.*\*\/)?[ \t]*$/ { next }
        in_body == 1 && /^[ \t]*\/\*/ { comment = 1 }
        in_body == 1 && comment { if (/\*\//) comment = 0; next }
        in_body == 1 { if (/^    BEGIN\(\);/) print at ":good"; else if (/^    NEXT_MAY_START\(\);/) in_body = 2; else print at ":bad"; if (in_body == 1) in_body = 0; next }
        in_body == 2 && /AFTER_EARLIER\(\)/ { print at ":good"; in_body = 0 }
        in_body == 2 && /^}/ { print at ":bad"; in_body = 0 }' "$file")
done
for file in src/backend/gpu/lower/fused_source.c src/ops/kernel.c; do
    grep -q 'BEGIN();' "$file" || { echo "$file: the source that it makes has no BEGIN()"; bad=1; }
done
grep -q 'griddepcontrol.wait' src/ops/kernel.c || { echo "src/ops/kernel.c: sources in CUDA C++ do not wait"; bad=1; }
# Pointers are written "T *x": a product has a space on either side of its star. What CUDA alone compiles is left out.
for file in src/backend/gpu/kernels/*.kl; do
    case $file in */prelude_cuda.kl | */prelude_opencl.kl | *_sm90.kl | *_matrix.kl | */product_units.kl) continue ;; esac
    awk -v file="$file" '
        { line = $0 }
        /\/\*/ { comment = 1; sub(/\/\*.*/, "", line) }
        comment { if ($0 ~ /\*\//) { comment = 0; line = ""; } else if ($0 !~ /\/\*/) line = "" }
        line ~ /SHARED\(|EXCHANGE\(|__launch_bounds__|atomicAdd\(\(u64|^FN u32 shared_atomic_.*\(u32 \*p/ { next }
        {
            while (match(line, /[A-Za-z_0-9] \*+(RESTRICT )?[A-Za-z_)(]/)) {
                before = substr(line, 1, RSTART)
                line = substr(line, RSTART + RLENGTH - 1)
                if (before !~ /(GLOBAL|SHARED_PTR|PARAM_PTR|PRIVATE|CONSTANT|device|threadgroup|constant|thread|space)( (const|volatile))* ((struct|union) )?[A-Za-z_0-9]*$/ && before !~ /return$/ && before !~ /(GLOBAL|SHARED_PTR|PARAM_PTR|PRIVATE|CONSTANT) [^,;(]*,$/) {
                    print file ":" NR ": a pointer without its address space: " $0
                    bad = 1
                }
            }
        }
        END { exit bad }' "$file" || bad=1
done
[ "$kernels" -ge 60 ] || { echo "only $kernels kernels were found"; bad=1; }
[ "$bad" = 0 ] && echo "$kernels kernels wait for those before them"
exit "$bad"
