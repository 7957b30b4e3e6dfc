//! A monitor of a virtual machine (QMP), or what listens in its place.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::thread;

use tailbound_enforcement::virtual_machine::Monitor;

/// A monitor that says anything is believed nothing but threads, and none twice as another CPU.
pub fn check(bytes: &[u8]) {
    let socket = crate::folder().join("monitor.sock");
    let _gone = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    let said = bytes.to_vec();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _most = stream.write_all(&said);
        // What it is asked is read, so that its end is no reset of the connection.
        let _over = stream.shutdown(std::net::Shutdown::Write);
        let _asked = std::io::copy(&mut stream, &mut std::io::sink());
    });
    match Monitor::connect(&socket) {
        Ok(mut monitor) => match monitor.vcpus() {
            Ok(threads) => assert!(!threads.is_empty()),
            Err(error) => assert!(!error.to_string().is_empty()),
        },
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    server.join().unwrap();
}
