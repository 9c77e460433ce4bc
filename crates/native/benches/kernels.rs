//! The kernels by themselves: `cargo bench -p eager-native`. Sizes are those of SmolLM2-135M, and larger ones for the
//! types that its file does not have: of the last, one row is read from memory, not from a cache.
//!
//! Throughput of products is in multiplications and additions. `eager engine bench --peaks` says what the machine can do.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use eager_native::bench::kernels::{Attend, Product};
use eager_native::load::DType;
use eager_native::{Isa, KvType};

const THREADS: usize = 2;

fn products(c: &mut Criterion) {
    for isa in Isa::available().into_iter().filter(|isa| isa.to_string() != "portable") {
        for (dtype, inputs, outputs) in [
            (DType::Q4_1, 576, 3072),
            (DType::Q4_1, 1536, 576),
            (DType::Q8_0, 576, 49152),
            (DType::Q4_0, 2048, 2048),
            (DType::Q4K, 2048, 2048),
            (DType::Q5K, 2048, 2048),
            (DType::Q6K, 2048, 2048),
            (DType::Q6K, 2048, 32768),
            (DType::F32, 576, 3072),
        ] {
            let mut group = c.benchmark_group(format!("product {isa} {dtype:?} {inputs}x{outputs}"));
            for rows in [1, 4, 8, 16, 32, 64, 256] {
                let mut product =
                    Product::new(isa, THREADS, dtype, inputs, outputs, rows).expect("threads can be started");
                product.prepare();
                group.throughput(Throughput::Elements((2 * inputs * outputs * rows) as u64));
                group.bench_function(BenchmarkId::from_parameter(rows), |b| b.iter(|| product.run()[0]));
            }
        }
    }
}

fn preparations(c: &mut Criterion) {
    let mut group = c.benchmark_group("activations into codes, 32 rows");
    for isa in Isa::available() {
        let mut product =
            Product::new(isa, THREADS, DType::Q4_1, 1536, 32, 32).expect("threads can be started");
        group.throughput(Throughput::Elements(32 * 1536));
        group.bench_function(isa.to_string(), |b| b.iter(|| product.prepare()));
    }
}

fn attention(c: &mut Criterion) {
    for kv in [KvType::Q16, KvType::Q8] {
        let mut group = c.benchmark_group(format!("attention {kv:?}, 32 branches"));
        for (shared, own) in [(256, 128), (1500, 100), (0, 1500)] {
            let mut attend =
                Attend::new(Isa::detect(), THREADS, kv, 32, shared, own).expect("threads can be started");
            // Scores and weighted values: a multiplication and an addition each, for every head and dimension.
            group
                .throughput(Throughput::Elements((Attend::LAYERS * 4 * 32 * 9 * 64 * (shared + own)) as u64));
            group.bench_function(format!("{shared} shared, {own} own"), |b| b.iter(|| attend.run()));
        }
    }
}

criterion_group! {
    name = kernels;
    config = Criterion::default().warm_up_time(std::time::Duration::from_millis(200)).measurement_time(std::time::Duration::from_secs(1)).sample_size(20);
    targets = products, preparations, attention
}
criterion_main!(kernels);
