//! What a report must be: right in its numbers, whole as a document, and safe with whatever models write.

mod counting;
mod document;
mod numbers;
mod runs;
mod trees;
