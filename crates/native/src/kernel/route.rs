//! Which experts a row is sent to.

use super::lanes::exp;

/// One of a row's experts, and how much it counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Route {
    pub expert: usize,
    pub weight: f32,
}

/// Adds the `used` best experts of a row, best first, to a list. Their weights are the softmax of their scores among
/// themselves. Of equals, the first is the better.
pub(crate) fn route(scores: &[f32], bias: &[f32], used: usize, routes: &mut Vec<Route>) {
    let first = routes.len();
    let chosen = |routes: &[Route], expert: usize| routes[first..].iter().any(|route| route.expert == expert);
    for _ in 0..used {
        let mut best: Option<Route> = None;
        for (expert, (score, bias)) in scores.iter().zip(bias).enumerate() {
            let weight = score + bias;
            let better = best.is_none_or(|best| weight > best.weight);
            if better && !chosen(routes, expert) {
                best = Some(Route { expert, weight });
            }
        }
        routes.extend(best);
    }
    let routes = &mut routes[first..];
    let Some(top) = routes.first().map(|route| route.weight) else { return };
    let mut total = 0.0;
    for route in routes.iter_mut() {
        route.weight = exp::<false>(route.weight - top);
        total += route.weight;
    }
    for route in routes {
        route.weight /= total;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_share_all_the_weight() {
        let mut routes = vec![Route { expert: 9, weight: 9.0 }];
        // With the biases: 1, 3, 2, 3, -1.
        route(&[0.0, 3.0, 4.0, 2.0, 0.0], &[1.0, 0.0, -2.0, 1.0, -1.0], 3, &mut routes);
        assert_eq!(routes.iter().map(|route| route.expert).collect::<Vec<_>>(), [9, 1, 3, 2]);
        let total = 2.0 + (-1f32).exp();
        for (route, want) in routes[1..].iter().zip([1.0 / total, 1.0 / total, (-1f32).exp() / total]) {
            assert!((route.weight - want).abs() < 1e-6, "{} for {want}", route.weight);
        }
    }

    #[test]
    fn what_is_no_number_is_passed_on() {
        let mut routes = Vec::new();
        route(&[f32::NAN, f32::NAN], &[0.0, 0.0], 2, &mut routes);
        assert_eq!(routes.len(), 2);
        assert!(routes.iter().all(|route| route.weight.is_nan()));
    }
}
