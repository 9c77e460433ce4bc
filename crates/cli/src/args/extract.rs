//! What counts as an answer.

use clap::Args;
use eager_grade::response::Extract;

#[derive(Debug, Clone, Copy, Default, Args)]
pub struct ExtractArgs {
    /// What counts as an answer of a response that the model ended: lenient takes its last number or line where nothing
    /// plainer is said; strict takes only a box, a statement such as "the answer is 5", or a closed block of code
    #[arg(long, value_name = "lenient|strict", default_value_t)]
    pub extract: Extract,
}
