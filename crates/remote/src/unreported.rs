//! The tokens that llama-server keeps to itself.
//!
//! It reports a token only when the text so far ends with a whole character. Where a character takes several tokens, all
//! but the last are decoded in silence: neither their ids nor their candidates are told, and only the count of tokens shows
//! that they were there. Both can be found out afterwards, and the stream need not be interrupted for it: the ids are those
//! of the character's text, or of the same request asked again with the same seed, and the candidates come from asking
//! for one token at that place.

use eager_core::{Candidate, Token};
use serde_json::{Value, json};

use crate::dialect::{Missing, Step, llama};
use crate::stream::{Fault, Stream, ask, broken, passing};

impl Stream {
    /// The steps that were not reported after what has been received. `prompt` is how many tokens the running request
    /// began with, `next` the reported token after them.
    pub(crate) async fn recover(
        &mut self,
        prompt: usize,
        missing: &Missing,
        next: Option<Token>,
    ) -> Result<Vec<Step>, Fault> {
        let spelled = self.spelled(missing, next).await?;
        let ids = match spelled {
            Some(ids) => ids,
            None => self.replayed(prompt, missing.count).await?,
        };
        // Any token that is a whole character would do.
        let letter = self.tokens_of("a").await?.last().copied();
        let whole = letter.ok_or_else(|| passing("the server does not know the letter a".to_owned()))?;
        let mut path = self.errand.tokens.clone();
        let mut steps = Vec::new();
        for token in ids {
            let body = llama::probe(&path, self.errand.top_k, whole);
            let answer = self.exchange("/completion", body).await?;
            let top = llama::probed(&answer, self.errand.top_k).map_err(|flaw| self.judge(flaw))?;
            // Below all candidates nothing more is known than that.
            let known = top.iter().find(|candidate| candidate.token == token).or(top.last());
            let logprob = known.map_or(f32::NEG_INFINITY, |candidate| candidate.logprob);
            steps.push(Step { top, sampled: Candidate { token, logprob } });
            path.push(token);
        }
        Ok(steps)
    }

    /// The missing ids, if the text can only have been written with them.
    async fn spelled(&self, missing: &Missing, next: Option<Token>) -> Result<Option<Vec<Token>>, Fault> {
        let Some(next) = next.filter(|_| !missing.text.is_empty()) else { return Ok(None) };
        let mut ids = self.tokens_of(&missing.text).await?;
        let fits = ids.pop() == Some(next) && ids.len() == missing.count;
        Ok(fits.then_some(ids))
    }

    /// The missing ids from the same request once more.
    async fn replayed(&self, prompt: usize, count: usize) -> Result<Vec<Token>, Fault> {
        let received = self.errand.tokens.len() - prompt;
        let mut errand = self.errand.clone();
        errand.tokens.truncate(prompt);
        errand.position -= received;
        errand.left = received + count;
        // Its own slot is busy with the running request.
        errand.seat = None;
        let body = llama::replay(&ask(&errand, &self.server.model));
        let answer = self.exchange("/completion", body).await?;
        let all = llama::replayed(&answer).map_err(|flaw| self.judge(flaw))?;
        match all.strip_prefix(&self.errand.tokens[prompt..]) {
            Some(rest) if rest.len() >= count => Ok(rest[..count].to_vec()),
            _ => Err(passing("tokens within a character were not reported".to_owned())),
        }
    }

    async fn tokens_of(&self, text: &str) -> Result<Vec<Token>, Fault> {
        let body = json!({"content": text, "add_special": false, "parse_special": false});
        let answer = self.exchange("/tokenize", body.to_string()).await?;
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        let tokens = answer.get("tokens").cloned().unwrap_or_default();
        serde_json::from_value(tokens)
            .map_err(|error| passing(format!("/tokenize answered nonsense ({error})")))
    }

    /// A request whose answer is short.
    async fn exchange(&self, path: &str, body: String) -> Result<Vec<u8>, Fault> {
        let limit = self.server.patience.first;
        let response =
            self.wait_for(self.server.post(path, body), limit).await?.map_err(|error| broken(&error))?;
        let response = self.accept(response).await?;
        Ok(self.wait_for(response.bytes(), limit).await?.map_err(|error| broken(&error))?.to_vec())
    }
}
