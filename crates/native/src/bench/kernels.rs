//! The kernels by themselves, for benchmarks.

use eager_core::Key;

use crate::kernel::{
    Answers, Attention, Input, Isa, KvType, PAGE, Packed, Plan, Results, Step, Tables, View, matmul,
};
use crate::load::{DType, Tensor};
use crate::pages::{Pool, Table};
use crate::threads::Threads;

/// Numbers between -1 and 1.
fn numbers(count: usize) -> Vec<f32> {
    let key = Key::prompt(0, 0);
    (0..count).map(|i| (key.uniform(i) * 2.0 - 1.0) as f32).collect()
}

/// A matrix product of a given size.
#[derive(Debug)]
pub struct Product {
    threads: Threads,
    isa: Isa,
    weights: Packed,
    rows: usize,
    x: Vec<f32>,
    input: Input,
    out: Results,
}

impl Product {
    /// Rows of `inputs` numbers against a matrix of this type. The size of its values means nothing.
    pub fn new(
        isa: Isa,
        threads: usize,
        dtype: DType,
        inputs: usize,
        outputs: usize,
        rows: usize,
    ) -> std::io::Result<Self> {
        let bytes = inputs * outputs / dtype.block_len() * dtype.block_bytes();
        let data: Vec<u8> = match dtype {
            // None that a processor may take long for, as it may for the smallest there are.
            DType::F32 => bytemuck::cast_slice(&numbers(inputs * outputs)).to_vec(),
            // Small enough bytes to be finite wherever they are read as a scale, and large enough not to be among the smallest.
            _ => (0..bytes).map(|i| (16 + i % 43) as u8).collect(),
        };
        let tensor = Tensor { dtype, shape: vec![outputs, inputs], data: &data };
        Ok(Product {
            threads: Threads::new(threads)?,
            isa,
            weights: Packed::stack(isa, &[tensor]),
            rows,
            x: numbers(rows * inputs),
            input: Input::default(),
            out: Results::default(),
        })
    }

    /// Turns activations into what the weights want.
    pub fn prepare(&mut self) {
        let inputs = self.x.len() / self.rows;
        let x = &self.x;
        self.input.fill(&self.threads, self.isa, self.rows, &self.weights, |row, into| {
            into.copy_from_slice(&x[row * inputs..][..inputs]);
        });
    }

    /// Multiplies what was prepared.
    pub fn run(&mut self) -> &[f32] {
        matmul(&self.threads, self.isa, &self.weights, &self.input, &mut self.out);
        self.out.row(0)
    }
}

/// One layer's attention for branches that share a prefix.
#[derive(Debug)]
pub struct Attend {
    threads: Threads,
    isa: Isa,
    shape: Attention,
    pool: Pool,
    branches: Vec<Table>,
    tables: Tables,
    plan: Plan,
    queries: Vec<i32>,
    scales: Vec<f32>,
    answers: Answers,
    out: Results,
}

impl Attend {
    /// Who sees what is worked out once for so many layers, as in a step.
    pub const LAYERS: usize = 10;

    /// Branches with the heads of SmolLM2-135M (9 of 64, sharing 3 of keys and values).
    pub fn new(
        isa: Isa,
        threads: usize,
        kv: KvType,
        branches: usize,
        shared: usize,
        own: usize,
    ) -> std::io::Result<Self> {
        let shape = Attention { heads: 9, kv_heads: 3, head_dim: 64, kv };
        let pages = (shared + branches * own).div_ceil(PAGE) + 2 * branches;
        let mut pool = Pool::new(pages, shape.page_bytes());
        let mut trunk = Table::default();
        trunk.grow(&mut pool, shared).expect("there are enough pages");
        let mut tables: Vec<Table> = (0..branches).map(|_| trunk.share(&mut pool, shared)).collect();
        trunk.clear(&mut pool);
        for table in &mut tables {
            table.grow(&mut pool, own).expect("there are enough pages");
        }
        let width = shape.heads * shape.head_dim;
        let rows = branches * shape.heads;
        let (mut queries, mut scales) = (vec![0; rows * shape.query_words()], vec![0.0; rows]);
        shape.encode_queries(isa, &numbers(branches * width), &mut queries, &mut scales);
        let mut out = Results::default();
        out.resize(branches, width);
        Ok(Attend {
            threads: Threads::new(threads)?,
            isa,
            shape,
            pool,
            branches: tables,
            tables: Tables::default(),
            plan: Plan::default(),
            queries,
            scales,
            answers: Answers::default(),
            out,
        })
    }

    /// Answers every branch's queries, [`LAYERS`](Self::LAYERS) times over.
    pub fn run(&mut self) -> f32 {
        let (tables, plan) = (&mut self.tables, &mut self.plan);
        tables.clear();
        for table in &self.branches {
            tables.add(table.pages());
        }
        let view = |(row, table): (usize, &Table)| View { row, table: row, first: 0, len: table.len() };
        plan.work_out(tables, self.branches.iter().enumerate().map(view), self.shape.group());
        let plan = &*plan;
        let pool = &self.pool;
        let page = |id| pool.data(id);
        let step = Step { shape: &self.shape, plan, page, queries: &self.queries, scales: &self.scales };
        for _ in 0..Self::LAYERS {
            self.answers.find(&self.threads, self.isa, &step);
            let (answers, out) = (&self.answers, self.out.shared());
            self.threads.run(self.branches.len(), |_, row| {
                // SAFETY: every row is in one task only.
                answers.merge(self.isa, &self.shape, plan, None, row, unsafe { out.row(row) });
            });
        }
        self.out.row(0)[0]
    }
}
