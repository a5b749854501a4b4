#!/usr/bin/env bash
# platform.sh - what one system has and another has not stands in files *_linux.c and *_macos.c of folders called
# platform, which CMake chooses; nobody else names it. Each such file has its twin, and a header for both.
set -u
cd "$(dirname "$0")/../.."
bad=0
folders=(src python/src tests bench examples fuzz)
# Headers, functions, flags, files and macros of one system or C library. Those of POSIX, and what both have, are not among them.
headers='elf|link|malloc|features|execinfo|crt_externs|(sys|linux|asm|mach|mach-o|malloc|os|dispatch)/(hwcap|syscall|auxv|sysinfo|random|eventfd|epoll|prctl|timerfd|signalfd|memfd|sendfile|sysctl|mach[a-z_]*|dyld|malloc|lock|futex)'
functions='getrandom|getentropy|arc4random[a-z_]*|getauxval|pipe2|accept4|dup3|memfd_create|eventfd|epoll_[a-z0-9]+|madvise|sched_[gs]etaffinity|CPU_(ZERO|SET|ISSET|COUNT)|syscall|sysctl(byname)?|mallopt|mallinfo2?|malloc_(usable_size|trim|size|zone[a-z_]*)|dl_iterate_phdr|dlinfo|dladdr1|get_nprocs(_conf)?|gettid|pthread_(condattr_setclock|setname_np|setaffinity_np|getaffinity_np|main_np|barrier_[a-z]+|cond_timedwait[a-z_]*|mach_thread_np)|clock_gettime_nsec_np|mach_[a-z_]+|_NSGet[A-Za-z]+|fallocate|copy_file_range|statx|renameat2|secure_getenv|qsort_r'
words='cpu_set_t|pthread_barrier_t|CLOCK_MONOTONIC_[A-Z_]+|CLOCK_BOOTTIME|CLOCK_UPTIME_RAW|MADV_[A-Z_]+|SOCK_(CLOEXEC|NONBLOCK)|MSG_NOSIGNAL|SO_NOSIGPIPE|O_(TMPFILE|DIRECT|PATH)|GRND_[A-Z]+|F_FULLFSYNC|SYS_[a-z_]+|AT_HWCAP2?|_SC_(PHYS_PAGES|NPROCESSORS_(ONLN|CONF)|LEVEL[0-9A-Z_]+)|environ|HWCAP2?_[A-Z0-9]+|__(linux|gnu_linux)__|__APPLE__|__MACH__|__GLIBC__|__GLIBC_PREREQ'
found=$(
    grep -rnE --include='*.[ch]' --include='*.inc' --include='*.def' \
        -e "^[ \t]*#[ \t]*include[ \t]*<($headers)\.h>" -e "(^|[^A-Za-z0-9_>.])($functions)[ \t]*\(" -e "(^|[^A-Za-z0-9_])($words)([^A-Za-z0-9_]|$)" \
        -e '"/(proc|sys)/' "${folders[@]}" 2>/dev/null | grep -vE '^[^:]*/platform/[a-z0-9_]*_(linux|macos)\.c:' |
        # The simulation of Metal is not built where Metal is.
        grep -vE '^tests/backend/metal/sim_[a-z_]*\.[ch]:' |
        # Lines of comments tell of a system without asking it for anything.
        grep -vE '^[^:]*:[0-9]*:[ \t]*(/?\*|//)'
)
if [ -n "$found" ]; then
    echo "$found"
    echo "names of one system: they stand in src/base/platform/, tests/platform/ and the like"
    bad=1
fi
while IFS= read -r file; do
    twin=${file/_linux.c/_macos.c}
    [ "$twin" = "$file" ] && twin=${file/_macos.c/_linux.c}
    [ -f "$twin" ] || { echo "$file has no $twin"; bad=1; }
    [ -f "${file%_*}.h" ] || { echo "$file has no ${file%_*}.h, which is the same for all systems"; bad=1; }
    [[ $file == */platform/* ]] || { echo "$file is not in a folder called platform"; bad=1; }
done < <(find "${folders[@]}" -name '*_linux.c' -o -name '*_macos.c')
exit $bad
