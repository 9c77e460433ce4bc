//! How a problem is put to the model: the user's message, as a template.
//!
//! The suites' own prompts are templates like any that a user gives. They are what the field uses, so that numbers can be
//! compared: mathematics asks for steps and a box, choices for a letter at the end, code for one block.

use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};

use super::Problem;
use crate::judge::Kind;

const BOXED: &str = r"{{ problem }}

Please reason step by step, and put your final answer within \boxed{}.";

const CHOICE: &str = "\
{{ problem }}
{% for choice in choices %}
{{ loop.index0 | letter }}) {{ choice }}
{%- endfor %}

One of these choices is right. Reason step by step, then finish with a line of its own that says \"Answer: \" and the \
letter of that choice.";

const CODE: &str = "\
Complete the Python function below so that it does what its description says. Answer with a self-contained solution, \
including the imports and whatever else it needs, in one Markdown code block.

```python
{{ problem | trim }}
```";

const BARE: &str = "{{ problem }}";

/// What a template can refer to.
const VARIABLES: [&str; 3] = ["problem", "choices", "id"];

/// What every template can call; the rest of the engine's names are filters, which are no variables.
const FUNCTIONS: [&str; 4] = ["range", "dict", "namespace", "debug"];

/// Steps that a template may take for one problem; the longest of ours takes dozens.
const FUEL: u64 = 1_000_000;

/// Has no extension, so that nothing is escaped as HTML.
const NAME: &str = "message";

#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("{0:#}; it can use {{{{ problem }}}}, {{{{ choices }}}} (a list) and {{{{ id }}}}")]
    Engine(#[from] minijinja::Error),
    #[error(
        "there is no variable '{0}'; it can use {{{{ problem }}}}, {{{{ choices }}}} (a list) and {{{{ id }}}}"
    )]
    UnknownVariable(String),
    #[error("it never says {{{{ problem }}}}, so every problem would be the same")]
    NoProblem,
}

/// A template that has been looked over.
#[derive(Debug)]
pub struct Template(Environment<'static>);

impl Template {
    pub fn new(source: &str) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        environment.add_filter("letter", |index: usize| eager_grade::choice::letter(index).to_string());
        environment.add_template_owned(NAME, source.to_owned())?;
        let used = environment.get_template(NAME)?.undeclared_variables(false);
        let known = |name: &&String| VARIABLES.contains(&name.as_str()) || FUNCTIONS.contains(&name.as_str());
        // The first in the alphabet, so that the error does not change from one time to the next.
        if let Some(unknown) = used.iter().filter(|name| !known(name)).min() {
            return Err(TemplateError::UnknownVariable(unknown.clone()));
        }
        if !used.contains("problem") {
            return Err(TemplateError::NoProblem);
        }
        Ok(Self(environment))
    }

    /// What the field uses for this kind of answer.
    pub(super) fn usual(kind: Kind) -> Result<Self, TemplateError> {
        Self::new(match kind {
            Kind::Math | Kind::Exact | Kind::Expression | Kind::None => BOXED,
            Kind::Choice => CHOICE,
            Kind::Code => CODE,
            Kind::Command => BARE,
        })
    }

    pub(super) fn bare() -> Result<Self, TemplateError> {
        Self::new(BARE)
    }

    pub fn render(&self, problem: &Problem) -> Result<String, TemplateError> {
        let Problem { id, text, choices, .. } = problem;
        Ok(self.0.get_template(NAME)?.render(context! { id, problem => text, choices })?)
    }
}
