//! Spans of OpenTelemetry, in the JSON of its protocol.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Deserializer, Value};
use tailbound_time::Duration;

use super::{LoggedRequest, RequestLog};
use crate::inputs::Lines;

/// `Export` is what an exporter hands over at once.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Export {
    #[serde(default)]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    #[serde(default)]
    resource: SpanSource,
    #[serde(default)]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Default, Deserialize)]
struct SpanSource {
    #[serde(default)]
    attributes: Vec<Attribute>,
}

#[derive(Deserialize)]
struct Attribute {
    key: String,
    #[serde(default)]
    value: Value,
}

#[derive(Deserialize)]
struct ScopeSpans {
    #[serde(default)]
    spans: Vec<RequestSpan>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestSpan {
    #[serde(default)]
    name: String,
    #[serde(default)]
    kind: Value,
    start_time_unix_nano: Value,
    end_time_unix_nano: Value,
}

impl ResourceSpans {
    /// The name of the service, empty where it has none.
    fn service(&self) -> &str {
        let mut attributes = self.resource.attributes.iter();
        let named = attributes.find(|attribute| attribute.key == "service.name");
        let value = named.and_then(|attribute| attribute.value.get("stringValue"));
        value.and_then(Value::as_str).unwrap_or_default()
    }
}

impl RequestSpan {
    /// Whether a server handles a request in it.
    fn is_of_server(&self) -> bool {
        self.kind == 2 || self.kind == "SPAN_KIND_SERVER"
    }

    fn request(&self) -> Option<LoggedRequest> {
        let nanos = |value: &Value| match value {
            Value::String(text) => text.parse().ok(),
            number => number.as_u64(),
        };
        let start = Duration::from_nanos(nanos(&self.start_time_unix_nano)?);
        let end = Duration::from_nanos(nanos(&self.end_time_unix_nano)?);
        (start <= end).then_some(LoggedRequest { start, end })
    }
}

/// Whether a text begins as exports of spans do.
pub(super) fn is_otlp(text: &str) -> bool {
    let begin = text.trim_start().strip_prefix('{').map(str::trim_start);
    begin.is_some_and(|begin| begin.starts_with("\"resourceSpans\""))
}

/// The requests of the service's spans; exports follow each other, on lines of their own or not.
pub(super) fn read(
    text: &str,
    service: Option<&str>,
    problems: &mut Lines<'_>,
) -> Option<RequestLog> {
    const FORM: &str = "give what the collector's file exporter writes, as JSON";
    let mut requests: BTreeMap<String, Vec<LoggedRequest>> = BTreeMap::new();
    let mut exports = Deserializer::from_str(text).into_iter::<Export>();
    loop {
        let begin = exports.byte_offset();
        let export = match exports.next() {
            None => break,
            Some(Ok(export)) => export,
            Some(Err(error)) => {
                let place = offset(text, error.line(), error.column()).max(begin);
                let message = format!("these are no spans of OpenTelemetry: {error}");
                problems.fail(place..place, message, FORM);
                return None;
            }
        };
        for spans in &export.resource_spans {
            let of_service = requests.entry(spans.service().to_owned()).or_default();
            let all = spans.scope_spans.iter().flat_map(|scope| &scope.spans);
            for span in all.filter(|span| span.is_of_server()) {
                match span.request() {
                    Some(request) => of_service.push(request),
                    None => problems.fail(
                        begin..begin,
                        format!(
                            "span \"{}\" ends before it begins, or has no times",
                            span.name
                        ),
                        "begin and end are nanoseconds since the epoch of Unix",
                    ),
                }
            }
        }
    }
    requests.retain(|_, requests| !requests.is_empty());
    let chosen = choose(requests, service, problems)?;
    Some(RequestLog {
        requests: chosen,
        resolution: Duration::ZERO,
    })
}

/// The requests of the service that is asked for, or of the only one.
fn choose(
    mut requests: BTreeMap<String, Vec<LoggedRequest>>,
    service: Option<&str>,
    problems: &mut Lines<'_>,
) -> Option<Vec<LoggedRequest>> {
    let names = requests.keys().map(|name| match name.as_str() {
        "" => "one without a name",
        name => name,
    });
    let names = names.collect::<Vec<_>>().join(", ");
    let (message, remedy) = match (service, requests.len()) {
        (_, 0) => (
            "no span is of kind server".to_owned(),
            "requests are told by spans of kind server; take spans of the service that is asked about".to_owned(),
        ),
        (None, 1) => return requests.pop_first().map(|(_, requests)| requests),
        (None, _) => (
            "the spans are of several services".to_owned(),
            format!("name one as FILE:SERVICE: {names}"),
        ),
        (Some(service), _) => match requests.remove(service) {
            Some(requests) => return Some(requests),
            None => (
                format!("no span of kind server is of service {service}"),
                format!("there are: {names}"),
            ),
        },
    };
    problems.fail(0..0, message, &remedy);
    None
}

/// The place of a line and a column, both counted from one, as serde_json tells them.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    let mut place = (before + column.saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(place) {
        place -= 1;
    }
    place
}
