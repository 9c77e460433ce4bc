//! `/metrics`: what Prometheus wants to know.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::app::App;

/// Upper ends of the histogram's buckets, in seconds.
const BUCKETS: [f64; 10] = [0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0];

/// What is counted over the life of a server.
#[derive(Debug, Default)]
pub struct Counters {
    answers: Mutex<BTreeMap<u16, usize>>,
    seconds: Mutex<Seconds>,
}

#[derive(Debug, Default)]
struct Seconds {
    buckets: [usize; BUCKETS.len()],
    count: usize,
    sum: f64,
}

impl Counters {
    /// A request was answered, or its answer begun.
    pub fn answered(&self, status: StatusCode) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.entry(status.as_u16()).or_default() += 1;
    }

    /// A request's trees were grown.
    pub fn grown(&self, time: Duration) {
        let mut seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        let time = time.as_secs_f64();
        seconds.count += 1;
        seconds.sum += time;
        for (count, _) in seconds.buckets.iter_mut().zip(BUCKETS).filter(|(_, end)| time <= *end) {
            *count += 1;
        }
    }
}

pub async fn show(State(app): State<Arc<App>>) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text(&app)).into_response()
}

fn text(app: &App) -> String {
    let gauges = &app.queue.gauges;
    let read = |value: &AtomicUsize| value.load(Ordering::Relaxed);
    let mut out = String::new();
    let mut one = |name: &str, kind: &str, help: &str, value: usize| {
        // Writing to a string does not fail.
        let _ = write!(out, "# HELP eager_{name} {help}\n# TYPE eager_{name} {kind}\neager_{name} {value}\n");
    };
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    one("tokens_decoded_total", "counter", "Tokens decoded.", read(&gauges.decoded));
    one("tokens_returned_total", "counter", "Tokens of the trees that came back.", read(&gauges.returned));
    one(
        "tokens_full_parallel_total",
        "counter",
        "What the sequences of these trees would have cost without sharing.",
        read(&gauges.full_parallel),
    );
    one("engine_steps_total", "counter", "Steps of the engine.", read(&gauges.steps));
    one(
        "engine_failures_total",
        "counter",
        "Prompts or runs that the engine failed at.",
        read(&gauges.failures),
    );
    one("prompts_waiting", "gauge", "Prompts in the queue.", read(&gauges.waiting));
    one("prompts_growing", "gauge", "Prompts being grown.", read(&gauges.growing));
    one("sequences_live", "gauge", "Sequences decoded at the last step.", read(&gauges.live));
    one("sequences_set_aside", "gauge", "Sequences that wait for memory.", read(&gauges.set_aside));
    one("kv_pages", "gauge", "Pages of keys and values in use.", read(&gauges.pages));
    one("connections", "gauge", "Open connections.", app.connections.count());
    one(
        "connections_evicted_total",
        "counter",
        "Idle connections closed to make room.",
        read(&app.connections.evicted),
    );
    one("tasks", "gauge", "Tasks of the server, this one included.", tasks);
    answers(&mut out, &app.counters);
    out
}

fn answers(out: &mut String, counters: &Counters) {
    out.push_str(
        "# HELP eager_http_answers_total Answers by status.\n# TYPE eager_http_answers_total counter\n",
    );
    for (status, count) in counters.answers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let _ = writeln!(out, "eager_http_answers_total{{status=\"{status}\"}} {count}");
    }
    let seconds = counters.seconds.lock().unwrap_or_else(PoisonError::into_inner);
    out.push_str("# HELP eager_request_seconds Time from a request to the end of its answer.\n");
    out.push_str("# TYPE eager_request_seconds histogram\n");
    for (end, count) in BUCKETS.iter().zip(seconds.buckets) {
        let _ = writeln!(out, "eager_request_seconds_bucket{{le=\"{end}\"}} {count}");
    }
    let _ = writeln!(out, "eager_request_seconds_bucket{{le=\"+Inf\"}} {}", seconds.count);
    let _ = writeln!(out, "eager_request_seconds_sum {}", seconds.sum);
    let _ = writeln!(out, "eager_request_seconds_count {}", seconds.count);
}
