//! The method against the paper: strategies over scripted models, compared with a literal transcription of the paper's
//! algorithms, under engines that keep step and engines that do not.

mod baselines;
mod paper;
mod readings;
mod reference;
mod regrow;
mod schedules;
mod scripted;
mod stored;
mod strategies;
