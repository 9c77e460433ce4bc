//! `acorn-corpus` prints acorn's training documents as JSON lines.
//!
//! The corpus is cut into blocks, each with a seed of its own. Worker threads draw the blocks in turn and the
//! main thread prints them in order, so the output depends on the seed alone and never on the number of
//! threads.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::{env, fmt, thread};

use eager_acorn::Corpus;

const USAGE: &str = "\
Prints acorn's training documents, one JSON object a line.

Usage: acorn-corpus [--seed N] [--documents N] [--threads N]

  --seed N       which corpus to print (default 1)
  --documents N  stop after so many (default: go on until the reader closes the pipe)
  --threads N    threads to draw with (default 1); the output is the same for any number";

/// Documents per block: enough to make handing blocks over cheap, few enough to keep memory small.
const BLOCK: usize = 1024;

/// Blocks that a worker may be ahead of the printer.
const AHEAD: usize = 4;

/// Seeds of corpora lie this far apart, so that two corpora share no block.
const CORPUS_STRIDE: u64 = 1_000_003;

/// An odd number that scatters neighbouring blocks over all 2^64 seeds.
const BLOCK_STRIDE: u64 = 0x5851_F42D_4C95_7F2D;

#[derive(Debug, Clone, Copy)]
struct Arguments {
    seed: u64,
    documents: Option<usize>,
    threads: usize,
}

fn main() -> ExitCode {
    let arguments = match parse(env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("acorn-corpus: {problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match print(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has had enough: that is how an endless corpus ends.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("acorn-corpus: cannot write: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The arguments, or `None` where help was asked for.
fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Arguments>, BadArgument> {
    let mut arguments = Arguments { seed: 1, documents: None, threads: 1 };
    while let Some(option) = words.next() {
        if option == "--help" || option == "-h" {
            return Ok(None);
        }
        if !["--seed", "--documents", "--threads"].contains(&option.as_str()) {
            return Err(BadArgument::Unknown(option));
        }
        let Some(number) = words.next().and_then(|word| word.parse::<u64>().ok()) else {
            return Err(BadArgument::NotANumber(option));
        };
        match option.as_str() {
            "--seed" => arguments.seed = number,
            // On a machine of 32 bits a larger count stands for "endless" as well as any.
            "--documents" => arguments.documents = Some(usize::try_from(number).unwrap_or(usize::MAX)),
            _ if (1..=256).contains(&number) => arguments.threads = number as usize,
            _ => return Err(BadArgument::Threads(number)),
        }
    }
    Ok(Some(arguments))
}

#[derive(Debug)]
enum BadArgument {
    Unknown(String),
    NotANumber(String),
    Threads(u64),
}

impl fmt::Display for BadArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(option) => write!(f, "there is no option `{option}`"),
            Self::NotANumber(option) => write!(f, "{option} needs a whole number"),
            Self::Threads(number) => write!(f, "--threads must be from 1 to 256, not {number}"),
        }
    }
}

fn print(Arguments { seed, documents, threads }: Arguments) -> io::Result<()> {
    let documents = documents.unwrap_or(usize::MAX);
    let receivers: Vec<Receiver<Vec<u8>>> = (0..threads)
        .map(|worker| {
            let (sender, receiver) = sync_channel(AHEAD);
            // Workers are left behind when the printer returns: the end of the process ends them.
            thread::spawn(move || draw(seed, documents, (worker..).step_by(threads), &sender));
            receiver
        })
        .collect();

    let mut out = BufWriter::new(io::stdout().lock());
    for receiver in receivers.iter().cycle() {
        match receiver.recv() {
            Ok(block) => out.write_all(&block)?,
            // Blocks go round the workers in turn, so the first that has none left marks the end.
            Err(_) => break,
        }
    }
    out.flush()
}

/// Draws the blocks of one worker until the documents are all drawn or nobody listens.
fn draw(seed: u64, documents: usize, blocks: impl Iterator<Item = usize>, sender: &SyncSender<Vec<u8>>) {
    for block in blocks {
        let wanted = documents.saturating_sub(block.saturating_mul(BLOCK)).min(BLOCK);
        if wanted == 0 {
            return;
        }
        let block_seed =
            seed.wrapping_mul(CORPUS_STRIDE).wrapping_add(block as u64).wrapping_mul(BLOCK_STRIDE);
        let mut lines = Vec::new();
        for document in Corpus::new(block_seed).take(wanted) {
            serde_json::to_writer(&mut lines, &document)
                .expect("a document has only strings and numbers, and writing to memory cannot fail");
            lines.push(b'\n');
        }
        if sender.send(lines).is_err() {
            return;
        }
    }
}
