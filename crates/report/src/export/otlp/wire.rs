//! The JSON form of spans and gauges: `opentelemetry/proto/trace/v1` and `…/metrics/v1` in their JSON mapping.

use super::content::{Attributes, Content, Gauge, Span, Value};
use serde_json::{Value as Json, json};
use std::fmt::Write;

/// `SPAN_KIND_INTERNAL`
const INTERNAL: u32 = 1;
/// `STATUS_CODE_ERROR`
const ERROR: u32 = 2;

/// A request of `/v1/traces`.
pub(super) fn traces(content: &Content) -> Json {
    let spans: Vec<Json> = content.spans.iter().enumerate().map(|(place, one)| span(content, place, one)).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": attributes(&content.resource)},
        "scopeSpans": [{"scope": scope(), "spans": spans}],
    }]})
}

/// A request of `/v1/metrics`.
pub(super) fn metrics(content: &Content) -> Json {
    let metrics: Vec<Json> = content.gauges.iter().map(|one| gauge(content, one)).collect();
    json!({"resourceMetrics": [{
        "resource": {"attributes": attributes(&content.resource)},
        "scopeMetrics": [{"scope": scope(), "metrics": metrics}],
    }]})
}

fn scope() -> Json {
    json!({"name": "bootscope", "version": env!("CARGO_PKG_VERSION")})
}

fn span(content: &Content, place: usize, span: &Span) -> Json {
    let mut json = json!({
        "traceId": hex(&content.trace_id()),
        "spanId": hex(&content.span_id(place)),
        "name": span.name,
        "kind": INTERNAL,
        "startTimeUnixNano": content.unix(span.start).to_string(),
        "endTimeUnixNano": content.unix(span.end).to_string(),
        "attributes": attributes(&span.attributes),
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = hex(&content.span_id(parent)).into();
    }
    if let Some(why) = &span.failed {
        json["status"] = json!({"code": ERROR, "message": why});
    }
    json
}

fn gauge(content: &Content, gauge: &Gauge) -> Json {
    let at = content.end().to_string();
    let point =
        |(of, value): &(Attributes, f64)| json!({"timeUnixNano": at, "asDouble": value, "attributes": attributes(of)});
    let points: Vec<Json> = gauge.points.iter().map(point).collect();
    json!({"name": gauge.name, "description": gauge.about, "unit": gauge.unit, "gauge": {"dataPoints": points}})
}

fn attributes(attributes: &Attributes) -> Vec<Json> {
    attributes.iter().map(|(name, it)| json!({"key": name, "value": value(it)})).collect()
}

fn value(value: &Value) -> Json {
    match value {
        Value::Text(text) => json!({"stringValue": text}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::Texts(texts) => {
            let values: Vec<Json> = texts.iter().map(|text| json!({"stringValue": text})).collect();
            json!({"arrayValue": {"values": values}})
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
