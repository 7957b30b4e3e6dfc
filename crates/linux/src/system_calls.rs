//! The numbers of system calls on this machine.

/// The number of a system call, such as `read`; `None` where this machine's kernel never had it.
pub fn number_of(name: &str) -> Option<u64> {
    let listed = NUMBERS.iter().find(|(listed, _)| *listed == name);
    listed.and_then(|(_, number)| u64::try_from(*number).ok())
}

macro_rules! numbers {
    ($($(#[$condition:meta])? $name:ident = $number:ident,)*) => {
        &[$($(#[$condition])? (stringify!($name), libc::$number),)*]
    };
}

/// The calls that recordings may name. Later machines have no calls for which others serve.
const NUMBERS: &[(&str, libc::c_long)] = numbers! {
    read = SYS_read,
    readv = SYS_readv,
    pread64 = SYS_pread64,
    recvfrom = SYS_recvfrom,
    recvmsg = SYS_recvmsg,
    recvmmsg = SYS_recvmmsg,
    write = SYS_write,
    writev = SYS_writev,
    pwrite64 = SYS_pwrite64,
    sendto = SYS_sendto,
    sendmsg = SYS_sendmsg,
    sendmmsg = SYS_sendmmsg,
    sendfile = SYS_sendfile,
    splice = SYS_splice,
    accept = SYS_accept,
    accept4 = SYS_accept4,
    close = SYS_close,
    #[cfg(target_arch = "x86_64")]
    poll = SYS_poll,
    ppoll = SYS_ppoll,
    #[cfg(target_arch = "x86_64")]
    select = SYS_select,
    pselect6 = SYS_pselect6,
    #[cfg(target_arch = "x86_64")]
    epoll_wait = SYS_epoll_wait,
    epoll_pwait = SYS_epoll_pwait,
    epoll_pwait2 = SYS_epoll_pwait2,
    futex = SYS_futex,
    futex_waitv = SYS_futex_waitv,
    nanosleep = SYS_nanosleep,
    clock_nanosleep = SYS_clock_nanosleep,
    fsync = SYS_fsync,
    fdatasync = SYS_fdatasync,
    sync_file_range = SYS_sync_file_range,
    io_getevents = SYS_io_getevents,
    io_uring_enter = SYS_io_uring_enter,
    wait4 = SYS_wait4,
    waitid = SYS_waitid,
    flock = SYS_flock,
    semtimedop = SYS_semtimedop,
    msgrcv = SYS_msgrcv,
    sched_yield = SYS_sched_yield,
};
