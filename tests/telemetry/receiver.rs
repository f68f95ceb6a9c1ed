//! A receiver of OTLP over HTTP on loopback.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Point;
use prost::Message;

use crate::common::wait::{until, until_some};

/// The path and the body of a request.
type Received = (String, Vec<u8>);

/// The receiver, and the requests that it got.
pub(crate) struct Receiver {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

/// A span.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) kind: i32,
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received: Arc<Mutex<Vec<_>>> = Arc::default();
        let shared = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let shared = shared.clone();
                std::thread::spawn(move || while receive(stream.as_ref().unwrap(), &shared).is_some() {});
            }
        });
        Self { url, received }
    }

    /// All spans, once `least` have arrived.
    pub(crate) fn spans(&self, least: usize) -> Vec<Told> {
        until_some(&format!("{least} spans come"), || {
            let spans: Vec<Told> = self.of("/v1/traces").iter().flat_map(|body| spans(body)).collect();
            (spans.len() >= least).then_some(spans)
        })
    }

    /// Waits for a metric.
    pub(crate) fn metric(&self, name: &str) {
        let has = |body: &Vec<u8>| {
            let request = ExportMetricsServiceRequest::decode(body.as_slice()).unwrap();
            let scopes = request.resource_metrics.into_iter().flat_map(|own| own.scope_metrics);
            scopes.flat_map(|scope| scope.metrics).any(|metric| metric.name == name)
        };
        until(&format!("{name} comes"), || self.of("/v1/metrics").iter().any(has));
    }

    /// The last value of a gauge of `service`.
    pub(crate) fn gauge(&self, service: &str, name: &str) -> Option<u64> {
        let requests = self.of("/v1/metrics");
        let requests =
            requests.iter().map(|body| ExportMetricsServiceRequest::decode(body.as_slice()).unwrap());
        let resources = requests.flat_map(|request| request.resource_metrics).filter(|own| {
            let resource = own.resource.clone().unwrap_or_default();
            attributes(&resource.attributes).get("service.name").is_some_and(|own| own == service)
        });
        let metrics = resources.flat_map(|own| own.scope_metrics).flat_map(|scope| scope.metrics);
        let mut points =
            metrics.filter(|metric| metric.name == name).filter_map(|metric| match metric.data? {
                Data::Gauge(gauge) => gauge.data_points.last()?.value,
                other => panic!("{name} is {other:?}"),
            });
        points.next_back().map(|value| match value {
            Point::AsInt(value) => value.try_into().unwrap(),
            Point::AsDouble(value) => panic!("{name} is {value}"),
        })
    }

    pub(crate) fn holds_nothing_of(&self, text: &str) {
        let received = self.received.lock().unwrap();
        assert!(!received.is_empty());
        let has =
            |(_, body): &(String, Vec<u8>)| body.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(!received.iter().any(has));
    }

    fn of(&self, path: &str) -> Vec<Vec<u8>> {
        let received = self.received.lock().unwrap();
        received.iter().filter(|(own, _)| own == path).map(|(_, body)| body.clone()).collect()
    }
}

fn receive(stream: &TcpStream, received: &Mutex<Vec<(String, Vec<u8>)>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    received.lock().unwrap().push((first.split(' ').nth(1)?.to_owned(), body));
    let mut writer = stream;
    writer
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n")
        .ok()
}

fn spans(body: &[u8]) -> Vec<Told> {
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    let mut spans = Vec::new();
    for own in request.resource_spans {
        let resource = attributes(&own.resource.unwrap_or_default().attributes);
        for span in own.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            spans.push(Told {
                service: resource.get("service.name").cloned().unwrap_or_default(),
                name: span.name,
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                kind: span.kind,
                attributes: attributes(&span.attributes),
            });
        }
    }
    spans
}

fn attributes(own: &[KeyValue]) -> BTreeMap<String, String> {
    let value = |own: &KeyValue| match own.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    own.iter().map(|own| (own.key.clone(), value(own))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
