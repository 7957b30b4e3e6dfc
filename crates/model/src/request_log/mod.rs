//! Logs of requests: access logs of web servers and proxies, and spans of OpenTelemetry.

use std::ops::Range;

use tailbound_time::Duration;

use crate::Problems;
use crate::inputs::{Lines, lines_with};
use form::{FORMS, Fields, Form, ReadError};

mod form;
mod spans;

/// `LoggedRequest` is a request as a log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoggedRequest {
    /// Its begin, since the epoch of Unix.
    pub start: Duration,
    /// Its end, since then; not before its begin.
    pub end: Duration,
}

/// `RequestLog` is what a log says of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLog {
    /// The requests, in the order of their begins.
    pub requests: Vec<LoggedRequest>,
    /// The most by which an instant of the log lies before the true one.
    pub resolution: Duration,
}

/// Reads a log of requests: an access log with a line for each request, as JSON or as `key=value`, with the keys of nginx
/// (`msec`, `request_time`), Caddy (`ts`, `duration`), Traefik (`StartUTC`, `Duration`) or Envoy (`start_time`, `duration`); or
/// spans of OpenTelemetry, as the file exporter of its collector writes them (OTLP in JSON). Of spans, those of kind server
/// count; `service` chooses the `service.name` where there are several. `file` names the file in problems.
///
/// # Errors
/// Every malformed line, up to twenty of them; a form that is none of these; a service that is not there or not the only
/// one, and a log without requests.
pub fn parse_request_log(
    text: &str,
    service: Option<&str>,
    file: &str,
) -> Result<RequestLog, Problems> {
    let mut problems = Lines::new(text, file);
    let log = match spans::is_otlp(text) {
        true => spans::read(text, service, &mut problems),
        false => access_log(text, service, &mut problems),
    };
    let mut log = log.unwrap_or_else(|| RequestLog {
        requests: Vec::new(),
        resolution: Duration::ZERO,
    });
    log.requests.sort_unstable();
    if log.requests.is_empty() && problems.problems.is_empty() {
        let remedy = "take the log after some requests";
        problems.fail(0..0, "the log has no request", remedy);
    }
    problems.outcome(log)
}

/// The requests of an access log; its first line tells its form.
fn access_log(text: &str, service: Option<&str>, problems: &mut Lines<'_>) -> Option<RequestLog> {
    if let Some(service) = service {
        problems.fail(
            0..0,
            format!("an access log has no services, and {service} is asked for"),
            "leave the name out, or give a log of that service alone",
        );
        return None;
    }
    let mut form: Option<&Form> = None;
    let mut requests = Vec::new();
    for (span, line) in lines_with(text, None) {
        if let Some(request) = request_of(line, span, &mut form, problems) {
            requests.push(request);
        }
        // Nothing else can be said of the lines of a form that is not known.
        form?;
    }
    let resolution = form?.resolution;
    Some(RequestLog {
        requests,
        resolution,
    })
}

/// The request of a line, whose form is that of the lines before it.
fn request_of(
    line: &str,
    span: Range<usize>,
    form: &mut Option<&'static Form>,
    problems: &mut Lines<'_>,
) -> Option<LoggedRequest> {
    let fields = match Fields::of(line) {
        Ok(fields) => fields,
        Err(message) => {
            problems.fail(span, message, "write one object of JSON in each line");
            return None;
        }
    };
    let Some(shape) = form.or_else(|| FORMS.iter().find(|form| form.is_of(&fields))) else {
        let forms: Vec<String> = FORMS.iter().map(ToString::to_string).collect();
        problems.fail(
            span,
            "the line has the begin and the duration of a request in no form that is known",
            &format!(
                "write JSON or key=value with the keys of one of: {}",
                forms.join(", ")
            ),
        );
        return None;
    };
    *form = Some(shape);
    match shape.request(&fields) {
        Ok(request) => Some(request),
        Err(ReadError { message, remedy }) => {
            problems.fail(span, message, &remedy);
            None
        }
    }
}

#[cfg(test)]
mod tests;
