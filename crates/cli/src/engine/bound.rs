//! How fast a step could be at best on this machine.

use eager_native::bench::Peaks;
use eager_native::load::{Checkpoint, LoadError};

use super::workload::{Timed, Workload};

/// What the bound needs to know of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Parameters that every row is multiplied with: all but the embedding, the output matrix and those of experts.
    body: f64,
    /// Parameters of the output matrix, which may be the embedding.
    output: f64,
    /// Bytes of both, as the model's file has them. An engine that makes them larger has itself to blame.
    weight_bytes: f64,
    /// Parameters of all experts, and their bytes.
    experts: f64,
    expert_bytes: f64,
    /// The share of its layer's experts that a row uses.
    active: f64,
    layers: f64,
    /// Width of the queries: heads times their dimension.
    queries: f64,
    /// Bytes of a token's keys and values in all layers.
    kv_bytes: f64,
}

/// A step's work.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Work {
    /// Tokens that are computed.
    rows: f64,
    /// Rows whose logits are needed.
    logits: f64,
    /// Tokens that a row attends to, on average.
    seen: f64,
    /// Tokens that all rows attend to, those that several see counted once.
    distinct: f64,
}

impl Shape {
    pub fn new(checkpoint: &Checkpoint, kv_bytes: usize) -> Result<Self, LoadError> {
        let config = &checkpoint.config;
        let output = config.vocab * config.hidden;
        let (mut parameters, mut bytes) = (checkpoint.parameters(), checkpoint.tensor_bytes());
        if checkpoint.has("output.weight") {
            // Then the embedding is only looked up.
            parameters -= output;
            bytes -= checkpoint.tensor("token_embd.weight")?.data.len();
        }
        let (experts, expert_bytes) = checkpoint.expert_parameters();
        Ok(Shape {
            body: (parameters - output - experts) as f64,
            output: output as f64,
            weight_bytes: (bytes - expert_bytes) as f64,
            experts: experts as f64,
            expert_bytes: expert_bytes as f64,
            active: config.experts.map_or(0.0, |experts| experts.used as f64 / experts.count as f64),
            layers: config.layers as f64,
            queries: (config.heads * config.head_dim) as f64,
            kv_bytes: kv_bytes as f64,
        })
    }
}

/// The least seconds that a step can take: the matrix products and then attention, each limited by arithmetic or by memory,
/// whichever is slower.
///
/// - Matrix products: two operations for every parameter and row; and every weight is read once. Of experts, a row meets
///   those that it uses, and as many are read as rows use together that choose evenly and apart from each other.
/// - Attention: four operations (two for the score, two for the sum of values) for every row, element of its queries, layer
///   and token it attends to; and every token's keys and values are read once, however many rows need them.
///
/// All operations are in dot products of 16-bit integers, or in floats on a machine where those are faster; matrix products on
/// the matrix unit, where there is one.
/// It is a bound for weights and keys that lie in memory. A model small enough for the caches may be faster, and so may
/// products of 8-bit integers.
fn seconds(shape: &Shape, work: &Work, peaks: &Peaks) -> f64 {
    let giga = 1e9;
    let body = shape.body + shape.active * shape.experts;
    let products = 2.0 * (body * work.rows + shape.output * work.logits);
    let operations = peaks.int16_gops.max(peaks.float_gops) * giga;
    let products = products / operations.max(peaks.tiles_gops.unwrap_or(0.0) * giga);
    let met = 1.0 - (1.0 - shape.active).powf(work.rows);
    let weights = (shape.weight_bytes + met * shape.expert_bytes) / (peaks.memory_gbs * giga);
    let scores = 4.0 * work.rows * shape.queries * shape.layers * work.seen / operations;
    let keys = work.distinct * shape.kv_bytes / (peaks.memory_gbs * giga);
    products.max(weights) + scores.max(keys)
}

/// The least seconds that the timed part of a workload can take. Sequences grow by a token a step, so the step in the
/// middle stands for all; a prompt could be computed in one step.
pub fn of(workload: &Workload, shape: &Shape, peaks: &Peaks) -> f64 {
    let prompt = workload.prompt() as f64;
    match workload.timed {
        Timed::Prefill => {
            let work = Work { rows: prompt, logits: 1.0, seen: (prompt + 1.0) / 2.0, distinct: prompt };
            seconds(shape, &work, peaks)
        }
        Timed::Decoding => {
            let (rows, steps) = (workload.branches as f64, workload.tokens as f64);
            let own = workload.own as f64 + (steps + 1.0) / 2.0;
            let distinct = workload.groves() as f64 * prompt + rows * own;
            steps * seconds(shape, &Work { rows, logits: rows, seen: prompt + own, distinct }, peaks)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::workload::CUSTOM;

    const SHAPE: Shape = Shape {
        body: 1e6,
        output: 2e5,
        weight_bytes: 2.4e6,
        experts: 0.0,
        expert_bytes: 0.0,
        active: 0.0,
        layers: 2.0,
        queries: 128.0,
        kv_bytes: 1024.0,
    };

    fn peaks() -> Peaks {
        Peaks {
            threads: 1,
            instructions: "none",
            float_gops: 10.0,
            int16_gops: 40.0,
            int8_gops: 80.0,
            tiles_gops: None,
            memory_gbs: 10.0,
        }
    }

    fn microseconds(work: Work) -> f64 {
        1e6 * seconds(&SHAPE, &work, &peaks())
    }

    fn assert_near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} instead of {expected}");
    }

    #[test]
    fn many_rows_are_bound_by_arithmetic() {
        // 2 * 1.2e6 * 8 / 40e9 = 480 us against 2.4e6 / 10e9 = 240 us;
        // 4 * 8 * 128 * 2 * 500 / 40e9 = 102.4 us against 500 * 1024 / 10e9 = 51.2 us.
        assert_near(microseconds(Work { rows: 8.0, logits: 8.0, seen: 500.0, distinct: 500.0 }), 582.4);
    }

    #[test]
    fn one_row_is_bound_by_memory() {
        // 60 us against 240 us; 12.8 us against 102.4 us.
        assert_near(microseconds(Work { rows: 1.0, logits: 1.0, seen: 500.0, distinct: 1000.0 }), 342.4);
    }

    #[test]
    fn only_rows_with_logits_meet_the_output_matrix() {
        // 2 * (1e6 * 100 + 2e5) / 40e9 = 5010 us; 4 * 100 * 128 * 2 * 50.5 / 40e9 = 129.28 us.
        let prompt = Work { rows: 100.0, logits: 1.0, seen: 50.5, distinct: 100.0 };
        assert_near(microseconds(prompt), 5139.28);
        let prefill = Workload { shared: 100, tokens: 1, timed: Timed::Prefill, ..CUSTOM };
        assert_near(1e6 * of(&prefill, &SHAPE, &peaks()), 5139.28);
    }

    #[test]
    fn of_experts_those_count_that_rows_use() {
        // A quarter of the experts for a row; two rows use 1 - (3/4)^2 = 7/16 of them together.
        let shape = Shape { experts: 16e6, expert_bytes: 16e6, active: 0.25, ..SHAPE };
        let least = |work| 1e6 * seconds(&shape, &work, &peaks());
        let work = |rows: f64| Work { rows, logits: rows, seen: 0.0, distinct: 0.0 };
        // (2.4e6 + 4e6) / 10e9 = 640 us against 2 * (1.2e6 + 4e6) / 40e9; (2.4e6 + 7e6) / 10e9 = 940 us.
        assert_near(least(work(1.0)), 640.0);
        assert_near(least(work(2.0)), 940.0);
        // 2 * 5.2e6 * 100 / 40e9 = 26 ms against all experts, 1840 us.
        assert_near(least(work(100.0)), 26_000.0);
    }

    #[test]
    fn the_experts_of_a_file_are_told_from_the_rest() {
        let models = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../native/tests/architectures");
        let shape = |path: &str| Shape::new(&Checkpoint::open(&models.join(path)).unwrap(), 0).unwrap();
        // Two layers of eight experts with three matrices of 32 x 64 and their biases, of which a row uses four.
        let experts = (2 * 8 * (3 * 32 * 64 + 2 * 32 + 64)) as f64;
        for path in ["gpt-oss", "gpt-oss/model.gguf", "gpt-oss-bf16"] {
            let found = shape(path);
            assert_eq!((found.experts, found.active), (experts, 0.5), "{path}");
            assert_eq!(found.body, shape("gpt-oss").body, "{path}");
        }
        assert_eq!((shape("llama").experts, shape("llama").active), (0.0, 0.0));
    }

    #[test]
    fn a_workload_is_its_steps() {
        // Three steps; in the middle one each of 8 rows has 398 shared tokens and 100 + 2 of its own.
        let shared = Workload { branches: 8, shared: 398, own: 100, tokens: 3, ..CUSTOM };
        let middle = Work { rows: 8.0, logits: 8.0, seen: 500.0, distinct: 398.0 + 8.0 * 102.0 };
        assert_near(1e6 * of(&shared, &SHAPE, &peaks()), 3.0 * microseconds(middle));
        let private = Workload { shared: 0, private: 398, ..shared };
        let middle = Work { distinct: 8.0 * 500.0, ..middle };
        // 480 us and 4000 * 1024 / 10e9 = 409.6 us.
        assert_near(microseconds(middle), 889.6);
        assert_near(1e6 * of(&private, &SHAPE, &peaks()), 3.0 * 889.6);
    }
}
