//! Options that several commands share.

mod budget;
mod chat;
mod engine;
mod extract;
mod forking;
mod number;
mod remote;
mod sampling;

pub use budget::BudgetArgs;
pub use chat::ChatArgs;
pub use engine::{EngineArgs, KvArg};
pub use extract::ExtractArgs;
pub use forking::{BaselineArgs, CapArg, ForkingArgs, RuleArgs, TreeArgs, recorded};
pub use number::{at_least_one, at_least_zero, sequences};
pub use remote::RemoteArgs;
pub use sampling::{DrawArgs, SamplingArgs};
