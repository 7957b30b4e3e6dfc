//! A client that comes while a daemon is ending: the kernel still takes its connection, for the
//! socket is open until the last thread of the daemon has exited.

use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

use tailbound_daemon::{Client, ClientError, LaunchError, StartOptions};
use tailbound_linux::control_socket::wait_readable;
use tailbound_time::Duration;

fn listen_in(directory: &Path) -> UnixListener {
    UnixListener::bind(directory.join("control.sock")).unwrap()
}

#[test]
fn a_socket_closed_before_the_connection_is_accepted_is_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let listener = listen_in(directory.path());
    let ending = thread::spawn(move || {
        wait_readable(&[listener.as_fd()], None).unwrap();
        drop(listener);
    });
    let refused = Client::connect(directory.path());
    assert!(
        matches!(refused, Err(ClientError::NotRunning { .. })),
        "{refused:?}"
    );
    ending.join().unwrap();
}

#[test]
fn a_connection_closed_before_the_first_answer_is_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let listener = listen_in(directory.path());
    let ending = thread::spawn(move || drop(listener.accept().unwrap()));
    let refused = Client::connect(directory.path());
    assert!(
        matches!(refused, Err(ClientError::NotRunning { .. })),
        "{refused:?}"
    );
    ending.join().unwrap();
}

#[test]
fn a_new_daemon_is_started_instead_of_one_that_is_ending() {
    let directory = tempfile::tempdir().unwrap();
    let listener = listen_in(directory.path());
    let ending = thread::spawn(move || drop(listener.accept().unwrap()));
    let options = StartOptions {
        program: Some("/nonexistent/tailboundd".into()),
        start_within: Duration::from_secs(1),
        ..StartOptions::default()
    };
    let failed = Client::connect_or_start(directory.path(), &options);
    assert!(
        matches!(
            failed,
            Err(ClientError::NotStarted(LaunchError::NotRun { .. }))
        ),
        "{failed:?}"
    );
    ending.join().unwrap();
}
