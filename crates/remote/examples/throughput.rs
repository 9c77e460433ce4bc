//! How fast sequences come through this engine, and what that costs on our side of the wire.
//!
//!     throughput URL [SEQUENCES] [TOKENS]
//!
//! Decodes so many sequences at once from a prompt of one token, and prints tokens per second and the processor time that
//! this program took for a thousand of them.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eager_core::strategy::FullParallel;
use eager_core::{Engine, Forest, Grove, Key, Sampling, Settings};
use eager_remote::{Options, RemoteEngine};
use rustix::time::{ClockId, clock_gettime};

/// One grove, there and back.
struct One(Option<Grove>);

impl Forest for One {
    fn next(&mut self, _: bool) -> Option<Grove> {
        self.0.take()
    }

    fn done(&mut self, grove: Grove) {
        let tokens = grove.tree().tokens_generated();
        println!("{tokens} tokens in {} sequences", grove.tree().len());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let url = arguments.first().ok_or("usage: throughput URL [SEQUENCES] [TOKENS]")?;
    let number = |at: usize, otherwise: usize| arguments.get(at).map_or(Ok(otherwise), |word| word.parse());
    let (sequences, max_tokens) = (number(1, 32)?, number(2, 200)?);
    let mut engine = RemoteEngine::connect(url, &Options::default())?;
    println!("{} serving {}, {} streams", engine.dialect(), engine.model(), engine.streams());

    let sampling = Sampling { temperature: 1.0, top_p: 1.0, ..Sampling::default() };
    // Nothing stops a sequence but its length, so that every run decodes the same number.
    let settings = Arc::new(Settings { sampling, max_tokens, ..Settings::default() });
    let strategy = Box::new(FullParallel { sequences });
    let grove = Grove::new(0, Key::prompt(1, 1), vec![1].into(), settings, strategy);
    let (began, worked) = (Instant::now(), processor_time());
    engine.grow(&mut One(Some(grove)))?;
    let (seconds, worked) = (began.elapsed().as_secs_f64(), (processor_time() - worked).as_secs_f64());

    let tally = engine.traffic().tally();
    let thousands = tally.received as f64 / 1000.0;
    println!(
        "{:.0} tokens/s, {:.1} ms of processor time a thousand",
        thousands * 1000.0 / seconds,
        worked * 1000.0 / thousands
    );
    println!("{tally:?}");
    Ok(())
}

/// What this process has used so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
