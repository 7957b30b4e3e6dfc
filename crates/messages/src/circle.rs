//! Routes that lead back to where they begin.

use std::collections::BTreeSet;

/// A circle of routes, each from a place to another: its places in their order, the first one at the end again. Places
/// without a route into them are taken away until none is left, or only such as lie on circles or behind them.
pub fn circle<P: Copy + Ord>(routes: impl IntoIterator<Item = (P, P)>) -> Option<Vec<P>> {
    let mut routes: Vec<(P, P)> = routes.into_iter().collect();
    loop {
        let targets: BTreeSet<P> = routes.iter().map(|(_, to)| *to).collect();
        let before = routes.len();
        routes.retain(|(from, _)| targets.contains(from));
        if routes.len() == before {
            break;
        }
    }
    let mut place = routes.first()?.0;
    let mut path = vec![place];
    // Every place here has a route into it, so the way back never ends, and meets a place again.
    while let Some((from, _)) = routes.iter().find(|(_, to)| *to == place) {
        place = *from;
        let met = path.iter().position(|earlier| *earlier == place);
        path.push(place);
        if let Some(begin) = met {
            let mut circle = path.split_off(begin);
            circle.reverse();
            return Some(circle);
        }
    }
    None
}
