//! The manager of services that has started this daemon, where one has: systemd, or one that speaks its protocol
//! (sd_notify(3)).

use std::env;
use std::process::Command;

use sd_notify::NotifyState;
use tracing::warn;

/// The variable by which a manager names the socket for news of the process that it has started.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";

/// Whether a manager waits for our news, and starts another daemon when this one dies.
pub fn is_there() -> bool {
    env::var_os(SOCKET_VARIABLE).is_some()
}

/// Gives the manager its news; without a manager nothing happens.
pub fn tell(news: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[news]) {
        warn!("the service manager hears nothing: {error}");
    }
}

/// Makes a program that `command` starts none of the manager's: whoever needs a daemon may be a service itself, and
/// its news are not ours to give.
pub fn hide_from(command: &mut Command) {
    command.env_remove(SOCKET_VARIABLE);
}
