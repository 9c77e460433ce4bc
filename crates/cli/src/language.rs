//! How the model reads and writes: by its files, or by the word of the server that runs it.

use eager_core::Token;
use eager_core::profile::reasoning_end;
use eager_native::load::{LoadError, Message, Words};
use eager_remote::{RemoteError, ServerWords, Turn};

use crate::args::ChatArgs;

#[derive(Debug)]
pub enum Language {
    Files(Box<Words>),
    Server(ServerWords),
}

#[derive(Debug, thiserror::Error)]
pub enum LanguageError {
    #[error(transparent)]
    Files(#[from] LoadError),
    #[error(transparent)]
    Server(#[from] RemoteError),
}

impl Language {
    /// The prompt of a problem: as the model's chat template writes it, or the bare text.
    pub fn prompt(&self, problem: &str, args: &ChatArgs) -> Result<Vec<Token>, LanguageError> {
        let system = args.system.as_deref().map(|text| ("system", text));
        let turns: Vec<Turn<'_>> = system.into_iter().chain([("user", problem)]).collect();
        match self {
            Language::Files(words) => {
                let messages = turns.iter().map(|&(role, text)| Message::new(role, text));
                let text = match &words.chat {
                    Some(chat) if !args.raw => chat.render(&messages.collect::<Vec<_>>(), &args.options())?,
                    _ => problem.to_owned(),
                };
                Ok(words.encode_prompt(&text)?)
            }
            Language::Server(words) if args.raw => Ok(words.encode(problem, true)?),
            Language::Server(words) => Ok(words.chat(&turns, &args.options().switches())?),
        }
    }

    /// The text of tokens. Special ones are kept: they show where reasoning ends.
    pub fn text(&self, tokens: &[Token]) -> Result<String, LanguageError> {
        match self {
            Language::Files(words) => Ok(words.tokenizer.decode(tokens)),
            Language::Server(words) => Ok(words.decode(tokens)?),
        }
    }

    pub fn stop_tokens(&self) -> &[Token] {
        match self {
            Language::Files(words) => &words.stop_tokens,
            Language::Server(words) => words.stop_tokens(),
        }
    }

    /// The tokens that close the model's chain of thought; none where it has no mark for that.
    pub fn reasoning_end(&self) -> Result<Vec<Token>, LanguageError> {
        match self {
            Language::Files(words) => Ok(words.tokenizer.reasoning_end()?),
            Language::Server(words) => {
                let is_token = |text: &str| Ok::<_, RemoteError>(words.encode(text, false)?.len() == 1);
                match reasoning_end(is_token)? {
                    Some(mark) => Ok(words.encode(mark, false)?),
                    None => Ok(Vec::new()),
                }
            }
        }
    }
}
