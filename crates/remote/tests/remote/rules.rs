//! Rules about tokens: passed on where they mean the same at a server, refused by name where they do not.

use std::sync::atomic::Ordering;
use std::time::Duration;

use eager_core::{Engine, TokenRules, Tree};
use eager_remote::{Dialect, RemoteEngine, RemoteError};

use crate::reference::Reference;
use crate::server::{Fault, Server};
use crate::{forking, options, parallel, ruled};

#[test]
fn what_a_server_would_do_otherwise_is_refused_by_name() {
    type Asks = fn(&mut TokenRules);
    let every: [(&str, Asks); 6] = [
        ("repetition_penalty", |rules| rules.repetition_penalty = 1.1),
        ("presence_penalty", |rules| rules.presence_penalty = 0.5),
        ("frequency_penalty", |rules| rules.frequency_penalty = 0.5),
        ("logit_bias", |rules| rules.logit_bias = vec![(7, -100.0)]),
        ("min_tokens", |rules| rules.min_tokens = 5),
        ("ignore_eos", |rules| rules.ignore_eos = true),
    ];
    for dialect in Dialect::ALL {
        let server = Server::start(dialect, |_| Fault::None);
        let mut engine = RemoteEngine::connect(&server.url(), &options()).unwrap();
        for (name, ask) in every {
            let refused = dialect.refused().iter().any(|(rule, _)| *rule == name);
            let mut rules = TokenRules::NONE;
            ask(&mut rules);
            let mut list = ruled(1, 1.0, parallel, &rules);
            match engine.grow(&mut list) {
                Err(RemoteError::Rule { rule, .. }) => assert!(refused && rule == name, "{dialect}: {name}"),
                Err(error) => panic!("{dialect}: {name}: {error}"),
                Ok(()) => assert!(!refused, "{dialect}: {name}"),
            }
        }
    }
}

/// Sequences end where the request says, whether or not the server knows, and it is not left decoding for nobody.
#[test]
fn named_ends_are_ends_at_every_server() {
    let rules = TokenRules { stop_token_ids: vec![7, 21, 33], ..TokenRules::NONE };
    for strategy in [parallel, forking] {
        let mut expected = ruled(4, 1.0, strategy, &rules);
        Reference.grow(&mut expected).unwrap();
        let expected = expected.trees();
        let last =
            |tree: &Tree| tree.ids().any(|id| rules.stop_token_ids.contains(tree.path(id).last().unwrap()));
        assert!(expected.iter().any(last), "the case must end at one of these");
        for dialect in Dialect::ALL {
            let server = Server::start(dialect, |_| Fault::None);
            let mut engine = RemoteEngine::connect(&server.url(), &options()).unwrap();
            let mut list = ruled(4, 1.0, strategy, &rules);
            engine.grow(&mut list).unwrap();
            assert_eq!(list.trees(), expected, "{dialect}");
            let idle = || server.shared.decoding.load(Ordering::Relaxed) == 0;
            let patience = (0..100).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                idle()
            });
            assert!(patience, "{dialect} decodes on");
        }
    }
}
