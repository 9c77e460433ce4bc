//! From options to runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use clap::{Args as ClapArgs, Parser};
use eager_core::{Method, Plan, Reallocation, Token};
use eager_lab::bench::{Task, max_tokens};
use eager_lab::campaign::{Trial, is_late};
use eager_lab::run::{FORMAT, Manifest, ModelInfo, Parameters, SuiteInfo, reading};
use eager_lab::suite::Suite;
use eager_lab::theta::FoundTheta;
use serde_json::Value;

use crate::args::{
    BaselineArgs, BudgetArgs, ChatArgs, DrawArgs, EngineArgs, ExtractArgs, RemoteArgs, RuleArgs,
    at_least_one, recorded,
};
use crate::lab::report::ReportArgs;
use crate::session::Session;
use crate::{Usage, sentence};

/// What all commands that run methods over suites share.
#[derive(Debug, Clone, ClapArgs)]
pub struct RunArgs {
    /// A .gguf file, a folder with config.json, tokenizer.json and *.safetensors, or a name on the Hugging Face hub, such as
    /// Qwen/Qwen3-4B [default: the embedded acorn]
    #[arg(long)]
    pub model: Option<PathBuf>,
    /// The folder for the runs [default: a new one below runs/]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Most tokens of one sequence [default: 32768, or what the context leaves]
    #[arg(long, value_parser = at_least_one)]
    pub max_tokens: Option<usize>,
    /// Prompts that grow at a time: the most that a crash can lose
    #[arg(long, default_value_t = 16, value_parser = at_least_one)]
    pub at_once: usize,
    /// The same seed gives the same trees; several, separated by commas, are a run each
    #[arg(long, value_delimiter = ',', default_value = "0")]
    pub seed: Vec<u64>,
    #[command(flatten)]
    pub report: ReportArgs,
    #[command(flatten)]
    pub chat: ChatArgs,
    #[command(flatten)]
    pub extract: ExtractArgs,
    #[command(flatten)]
    pub draw: DrawArgs,
    #[command(flatten)]
    pub rules: RuleArgs,
    #[command(flatten)]
    pub budget: BudgetArgs,
    #[command(flatten)]
    pub baselines: BaselineArgs,
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub remote: RemoteArgs,
}

/// An option and the values that a sweep gives it, as in `--vary regrow-first=likely,path`.
#[derive(Debug, Clone, PartialEq)]
pub struct Vary {
    option: String,
    values: Vec<String>,
}

impl FromStr for Vary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (option, values) = text.split_once('=').ok_or("write it as OPTION=VALUE,VALUE")?;
        let option = option.trim_start_matches("--").to_owned();
        Ok(Vary { option, values: values.split(',').map(str::to_owned).collect() })
    }
}

/// The options whose values can be varied by name.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Varied {
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    budget: BudgetArgs,
    #[command(flatten)]
    baselines: BaselineArgs,
}

/// The options of a run of which nobody said anything.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Unsaid {
    #[command(flatten)]
    varied: Varied,
    #[command(flatten)]
    draw: DrawArgs,
}

/// The options that were varied, with the values that one combination gives them.
pub type Variation = Vec<(String, String)>;

impl RunArgs {
    /// These options for a model of this name.
    pub fn for_model(&self, name: &str) -> RunArgs {
        RunArgs { chat: self.chat.clone().for_model(name), ..self.clone() }
    }

    /// These options with every combination of the varied ones.
    pub fn variants(&self, vary: &[Vary]) -> anyhow::Result<Vec<(Variation, RunArgs)>> {
        let mut variants = vec![(Variation::new(), self.clone())];
        for Vary { option, values } in vary {
            let mut more = Vec::new();
            for (variation, args) in &variants {
                for value in values {
                    let mut variation = variation.clone();
                    variation.push((option.clone(), value.clone()));
                    more.push((variation, args.with(option, value)?));
                }
            }
            variants = more;
        }
        Ok(variants)
    }

    /// These options with another value of one of them. They become words once more, as if they had been typed so.
    fn with(&self, option: &str, value: &str) -> anyhow::Result<RunArgs> {
        let refused = |why: &str| Usage(format!("--vary {option}={value}: {why}"));
        if option == "profile" {
            return Err(refused("a profile only sets theta, which --theta varies").into());
        }
        let known: BTreeMap<String, Value> =
            [recorded(&self.rules), recorded(&self.budget), recorded(&self.baselines)]
                .into_iter()
                .flatten()
                .collect();
        let mut words = match (known.get(option), value) {
            // A switch is there or it is not.
            (Some(Value::Bool(_)), "true") => vec![format!("--{option}")],
            (Some(Value::Bool(_)), "false") => Vec::new(),
            (Some(Value::Bool(_)), _) => return Err(refused("it can be true or false").into()),
            (None, _) => {
                let names: Vec<&str> =
                    known.keys().map(String::as_str).filter(|&name| name != "profile").collect();
                return Err(refused(&format!(
                    "there is no such option to vary; there are {}",
                    names.join(", ")
                ))
                .into());
            }
            _ => vec![format!("--{option}={value}")],
        };
        for (name, value) in known.iter().filter(|(name, _)| *name != option) {
            match value {
                Value::Bool(true) => words.push(format!("--{name}")),
                Value::String(text) => words.push(format!("--{name}={text}")),
                Value::Number(number) => words.push(format!("--{name}={number}")),
                _ => {}
            }
        }
        let Varied { rules, budget, baselines } =
            Varied::try_parse_from(words).map_err(|error| refused(&sentence(&error)))?;
        Ok(RunArgs { rules, budget, baselines, ..self.clone() })
    }
}

/// What a run's name says of a variation: the options that mean something to its method. So a run that a variation does not
/// touch has the same name in every sweep, and is found there again.
pub fn suffix(variation: &Variation, manifest: &Manifest) -> String {
    let elsewhere = ["entropy-top-k", "entropy-temperature"];
    let matters =
        |option: &str| elsewhere.contains(&option) || manifest.parameters.options.contains_key(option);
    let varied = variation.iter().filter(|(option, _)| matters(option));
    varied.map(|(option, value)| format!("_{option}={value}")).collect()
}

/// What distinguishes one run from the others of a campaign.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    pub method: Method,
    /// `None`: what suits the model.
    pub theta: Option<f32>,
    pub max_sequences: usize,
    pub temperature: f32,
    pub seed: u64,
    /// Where theta is neither given nor the model's own.
    pub found: Option<FoundTheta>,
}

impl Setting {
    /// A folder's name that says all of it, so that any set of them can share a campaign.
    pub fn full_name(&self, theta: Option<f32>) -> String {
        let theta = theta.map(|theta| format!("_theta{theta}")).unwrap_or_default();
        let Setting { max_sequences, temperature, seed, .. } = self;
        format!("{}{theta}_m{max_sequences}_temp{temperature}_seed{seed}", self.plain_name())
    }

    pub fn plain_name(&self) -> String {
        self.method.to_string().replace('/', "-")
    }
}

/// A model and a suite, ready for runs.
#[derive(Debug)]
pub struct Subject<'a> {
    pub session: &'a mut Session,
    pub suite: Suite,
    pub model: ModelInfo,
    encoded: Vec<Vec<Token>>,
}

impl<'a> Subject<'a> {
    pub fn new(session: &'a mut Session, suite: Suite, args: &RunArgs) -> anyhow::Result<Self> {
        let model = ModelInfo {
            name: session.name.clone(),
            hash: session.hash()?.to_owned(),
            path: args.model.as_ref().map(|path| path.display().to_string()),
            engine: session.engine_name(&args.engine),
        };
        let encode = |problem: &eager_lab::suite::Problem| session.encode(&problem.message, &args.chat);
        let encoded = suite.problems.iter().map(encode).collect::<anyhow::Result<_>>()?;
        Ok(Subject { session, suite, model, encoded })
    }

    /// The theta that a method will use; none where it does not fork.
    pub fn theta(&self, setting: &Setting) -> Option<f32> {
        let own = || self.session.profile.theta(setting.method);
        let given = setting.theta.or(setting.found.map(|found| found.theta));
        setting.method.forks().then(|| given.unwrap_or_else(own))
    }

    /// The problems as prompts; settings with the same temperature share them.
    pub fn tasks(&self, args: &RunArgs, temperature: f32) -> anyhow::Result<Arc<Vec<Task>>> {
        let drawn = args.draw.settings(temperature);
        let task = |(problem, tokens): (&eager_lab::suite::Problem, &Vec<Token>)| {
            let (key, tokens) = (&problem.id, tokens.clone());
            let prompt = self.session.prompt(tokens, key, args.max_tokens, drawn.clone(), &args.rules)?;
            let extraction = self.session.extraction(&prompt.tokens, args.extract.extract)?;
            let task = Task::new(problem.clone(), prompt, extraction, self.session.speller());
            Ok(Task { secret: self.suite.secret, ..task })
        };
        let tasks: anyhow::Result<Vec<Task>> =
            self.suite.problems.iter().zip(&self.encoded).map(task).collect();
        Ok(Arc::new(tasks?))
    }

    pub fn trial(&self, args: &RunArgs, setting: &Setting, name: String, tasks: &Arc<Vec<Task>>) -> Trial {
        let theta = self.theta(setting);
        let Setting { method, max_sequences, temperature, seed, found, .. } = *setting;
        // Methods that do not fork never ask for theta.
        let plan = Plan {
            surplus: args.budget.limit(),
            ..args.rules.plan(seed, theta.unwrap_or(f32::INFINITY), max_sequences, &args.baselines)
        };
        let manifest = Manifest {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model: self.model.clone(),
            suite: SuiteInfo {
                name: self.suite.name.clone(),
                hash: self.suite.hash.clone(),
                problems: self.suite.problems.len(),
            },
            method: method.to_string(),
            parameters: Parameters {
                max_sequences,
                max_tokens: max_tokens(tasks.iter()),
                temperature,
                top_p: args.draw.top_p,
                top_k: args.draw.top_k,
                min_p: args.draw.min_p,
                theta,
                entropy_top_k: args.rules.tree.entropy_top_k,
                entropy_temperature: args.rules.tree.entropy_temperature,
                second_pass: reading(method, plan.surplus).map(str::to_owned),
                options: options(args, method),
                defaults: defaults(args, method, &self.model.name),
            },
            seed,
            found_theta: found,
        };
        Trial { name, method, plan, manifest, tasks: Arc::clone(tasks) }
    }
}

/// What else decides what a method decodes, by the names of the options.
fn options(args: &RunArgs, method: Method) -> BTreeMap<String, Value> {
    let mut options = prompting(args);
    let mut record = |all: BTreeMap<String, Value>, wanted: &dyn Fn(&str) -> bool| {
        // These have a place of their own in the record.
        let elsewhere = ["profile", "entropy-top-k", "entropy-temperature"];
        let wanted = |name: &str| !elsewhere.contains(&name) && wanted(name);
        options.extend(all.into_iter().filter(|(name, value)| wanted(name) && !value.is_null()));
    };
    if method.forks() {
        let wanted = |name: &str| match method.reallocation() {
            // Only eager-adapt looks for prompts without being told which are unsolved.
            Some(_) if name == "adapt-to" => matches!(method, Method::EagerAdapt(_)),
            // Its limit is over all prompts in any case.
            Some(Reallocation::RerunLiteral) if name == "surplus-total" => false,
            Some(Reallocation::Rerun | Reallocation::RerunLiteral) => !name.starts_with("regrow"),
            Some(Reallocation::Regrow) => true,
            None => !is_late(name),
        };
        record(recorded(&args.rules), &wanted);
        record(recorded(&args.budget), &wanted);
    }
    match method {
        Method::Esc => record(recorded(&args.baselines), &|name| name.starts_with("esc")),
        Method::TwoStage => record(recorded(&args.baselines), &|name| name == "first-stage"),
        Method::DeepConf => record(recorded(&args.baselines), &|name| name.starts_with("deepconf")),
        _ => {}
    }
    options
}

/// What is the same for all methods: how problems are put, how tokens are drawn, and how answers are read.
pub fn prompting(args: &RunArgs) -> BTreeMap<String, Value> {
    let mut options = args.chat.recorded();
    options.extend(args.draw.recorded());
    options.insert("extract".to_owned(), args.extract.extract.name().into());
    options
}

/// What the options of a method are where nobody says otherwise.
fn defaults(args: &RunArgs, method: Method, model: &str) -> BTreeMap<String, Value> {
    // None of these is required, so there is always such a call.
    let Ok(Unsaid { varied, draw }) = Unsaid::try_parse_from([] as [&str; 0]) else {
        return BTreeMap::new();
    };
    let Varied { rules, budget, baselines } = varied;
    // By themselves templates have their models think, but not for as long as they can.
    let chat = ChatArgs { reasoning_effort: None, ..ChatArgs::default().for_model(model) };
    let extract = ExtractArgs::default();
    options(&RunArgs { rules, budget, baselines, chat, extract, draw, ..args.clone() }, method)
}
