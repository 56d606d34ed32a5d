/* Counts a process's calls that change files, and ends it without notice before the n-th: what `kill -9` may do anywhere.
   Preloaded by test_store_kills.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static long armed_at, seen;

void kill_points_arm(long at) { seen = 0; armed_at = at; }
long kill_points_seen(void) { return seen; }

static void point(void) {
    if (!armed_at) return;
    if (++seen == armed_at) { kill(getpid(), SIGKILL); pause(); }
}

static void point_of(int fd) {
    struct stat found;
    if (armed_at && fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) point();
}

#define FILE_CALL(type, name, proto, args) \
    type name proto { static type (*real) proto; if (!real) real = dlsym(RTLD_NEXT, #name); point_of(fd); return real args; }
#define PATH_CALL(name, proto, args) \
    int name proto { static int (*real) proto; if (!real) real = dlsym(RTLD_NEXT, #name); point(); return real args; }

FILE_CALL(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
FILE_CALL(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
FILE_CALL(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
FILE_CALL(ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
FILE_CALL(int, fsync, (int fd), (fd))
FILE_CALL(int, fdatasync, (int fd), (fd))
FILE_CALL(int, ftruncate, (int fd, off_t size), (fd, size))
FILE_CALL(int, ftruncate64, (int fd, off64_t size), (fd, size))
PATH_CALL(rename, (const char *from, const char *to), (from, to))
PATH_CALL(unlink, (const char *path), (path))
PATH_CALL(mkdir, (const char *path, mode_t mode), (path, mode))
PATH_CALL(rmdir, (const char *path), (path))
