//! `tailbound metrics`: the counts of the daemon, as Prometheus reads them. A process of its own serves them, which needs no
//! rights: the daemon has no door to the network.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration as Pause;

use tailbound_control::Client;
use tailbound_enforcement::state_directory;
use tiny_http::{Header, Method, Response, Server};

use crate::arguments::MetricsArguments;
use crate::failure::{Failure, chain};
use crate::interrupts;
use crate::output::Output;

/// The path below which Prometheus looks by default.
const PATH: &str = "/metrics";
/// The format's name in HTTP.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The time between two looks of a server whether it is to end.
const LOOK_EVERY: Pause = Pause::from_millis(200);

/// Prints the metrics, or serves them.
pub fn carry_out(arguments: &MetricsArguments, output: &Output) -> Result<(), Failure> {
    let state = state_directory();
    match arguments.listen {
        None => output.print(&exposition(&state, output)),
        Some(address) => serve(address, &state, output),
    }
}

/// The daemon's metrics, and whether it answers; that alone where it does not.
fn exposition(state: &Path, output: &Output) -> String {
    let metrics = Client::connect(state).and_then(|mut client| client.metrics());
    let (up, metrics) = match metrics {
        Ok(metrics) => (1, metrics),
        Err(error) => {
            output.note(chain(&error));
            (0, String::new())
        }
    };
    format!(
        "# HELP tailbound_up Whether the daemon answers; it ends where nothing is reserved.\n\
         # TYPE tailbound_up gauge\n\
         tailbound_up {up}\n{metrics}"
    )
}

/// Answers requests one after the other until the command is to end.
fn serve(address: SocketAddr, state: &Path, output: &Output) -> Result<(), Failure> {
    let stop = interrupts::watch()?;
    let server = Server::http(address).map_err(|error| {
        Failure::with_help(
            format!("cannot listen at {address}: {error}"),
            "choose another port with --listen, or end what listens there",
        )
    })?;
    output.note(format!("metrics at http://{}{PATH}", server.server_addr()));
    while !stop.load(Ordering::SeqCst) {
        let request = server.recv_timeout(LOOK_EVERY).map_err(|error| {
            Failure::error(format!("cannot take requests at {address}: {error}"))
        })?;
        let Some(request) = request else {
            continue;
        };
        let answer = answer(request.method(), request.url(), || {
            exposition(state, output)
        });
        let response = Response::from_string(answer.text).with_status_code(answer.status);
        let content_type = Header::from_bytes("Content-Type", answer.content_type);
        let response = match content_type {
            Ok(header) => response.with_header(header),
            Err(()) => response,
        };
        // It fails if whoever asked has gone.
        let _ = request.respond(response);
    }
    Ok(())
}

/// `HttpAnswer` is what one request over HTTP gets.
struct HttpAnswer {
    status: u16,
    content_type: &'static str,
    text: String,
}

fn answer(method: &Method, url: &str, exposition: impl FnOnce() -> String) -> HttpAnswer {
    let plain = |status, text: String| HttpAnswer {
        status,
        content_type: "text/plain; charset=utf-8",
        text,
    };
    let path = url.split('?').next().unwrap_or(url);
    match (method, path) {
        (Method::Get | Method::Head, PATH) => HttpAnswer {
            status: 200,
            content_type: CONTENT_TYPE,
            text: exposition(),
        },
        (Method::Get | Method::Head, _) => plain(404, format!("the metrics are at {PATH}\n")),
        _ => plain(405, format!("the metrics are at {PATH}, by GET\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_are_at_one_path_and_by_get() {
        let status = |method: &Method, url: &str| answer(method, url, || "up".into()).status;
        assert_eq!(status(&Method::Get, "/metrics"), 200);
        assert_eq!(status(&Method::Head, "/metrics?name=x"), 200);
        assert_eq!(status(&Method::Get, "/metrics/"), 404);
        assert_eq!(status(&Method::Get, "/"), 404);
        assert_eq!(status(&Method::Post, "/metrics"), 405);
        let refused = answer(&Method::Get, "/", || {
            unreachable!("the daemon is not asked")
        });
        assert_eq!(refused.text, "the metrics are at /metrics\n");
    }
}
