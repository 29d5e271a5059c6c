//! Resolves the links of a fault.

use crate::fault::{Reach, Shape};
use crate::weather::Weather;
use crate::world::World;

impl World {
    /// The directed links that a change of weather affects; `None`: none.
    pub(crate) fn links_reached(&mut self, reach: Reach) -> Option<Vec<(usize, usize)>> {
        let n = self.slots.len();
        Some(match reach {
            Reach::Everywhere => all_links(n),
            Reach::Around(role) => {
                let slot = self.resolve(role)?;
                all_links(n).into_iter().filter(|(from, to)| *from == slot || *to == slot).collect()
            }
            Reach::Towards(role) => {
                let slot = self.resolve(role)?;
                all_links(n).into_iter().filter(|(_, to)| *to == slot).collect()
            }
            Reach::From(role) => {
                let slot = self.resolve(role)?;
                all_links(n).into_iter().filter(|(from, _)| *from == slot).collect()
            }
        })
    }

    /// The directed links that a cut affects; `None`: none, or its two ends are one process.
    pub(crate) fn links_of(&mut self, shape: Shape) -> Option<Vec<(usize, usize)>> {
        let n = self.slots.len();
        let links = all_links(n).into_iter();
        let taken: Vec<(usize, usize)> = match shape {
            Shape::OneWay(a, b) => {
                let (a, b) = (self.resolve(a)?, self.resolve(b)?);
                links.filter(|link| *link == (a, b)).collect()
            }
            Shape::Pair(a, b) => {
                let (a, b) = (self.resolve(a)?, self.resolve(b)?);
                links.filter(|link| *link == (a, b) || *link == (b, a)).collect()
            }
            Shape::Isolate(role) => {
                let slot = self.resolve(role)?;
                links.filter(|(from, to)| *from == slot || *to == slot).collect()
            }
            Shape::Deaf(role) => {
                let slot = self.resolve(role)?;
                links.filter(|(_, to)| *to == slot).collect()
            }
            Shape::Mute(role) => {
                let slot = self.resolve(role)?;
                links.filter(|(from, _)| *from == slot).collect()
            }
            Shape::Halves(sides) => {
                let side = |slot: &usize| sides >> (slot % 62) & 1;
                links.filter(|(from, to)| side(from) != side(to)).collect()
            }
            Shape::Ring => {
                let apart = |from: usize, to: usize| (to + n - from) % n > 1 && (from + n - to) % n > 1;
                links.filter(|(from, to)| apart(*from, *to)).collect()
            }
            Shape::Blackout => links.collect(),
        };
        (!taken.is_empty()).then_some(taken)
    }

    pub(crate) fn cut_links(&mut self, links: &[(usize, usize)]) {
        for (from, to) in links {
            self.net.cut(*from, *to);
        }
    }

    pub(crate) fn mend_links(&mut self, links: &[(usize, usize)]) {
        for (from, to) in links {
            self.net.mend(*from, *to);
        }
    }

    /// Sets the weather of links, except between processes of one machine, which have no network between them.
    pub(crate) fn set_weather(&mut self, links: &[(usize, usize)], weather: Weather) {
        for (from, to) in links {
            let local = self.slots[*from].host == self.slots[*to].host;
            let far_ns = self.settings.far.as_ref().map_or(0, |far| far.delay_ns(*from, *to));
            let weather = Weather { base_ns: weather.base_ns.max(far_ns), ..weather };
            *self.net.weather_mut(*from, *to) = if local { Weather::LOCAL } else { weather };
        }
    }
}

/// Every directed link between `n` processes.
pub(crate) fn all_links(n: usize) -> Vec<(usize, usize)> {
    let pairs = |from| (0..n).filter(move |to| *to != from).map(move |to| (from, to));
    (0..n).flat_map(pairs).collect()
}

/// Describes links for people.
pub(crate) fn describe(links: &[(usize, usize)]) -> String {
    let shown: Vec<String> = links.iter().take(12).map(|(from, to)| format!("{from}>{to}")).collect();
    let more = links.len().saturating_sub(shown.len());
    if more > 0 { format!("{} and {more} more", shown.join(" ")) } else { shown.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Role;
    use crate::world::WorldSettings;

    #[test]
    fn shapes_take_the_links_they_say() {
        let mut world = World::new(WorldSettings::quiet(5), 1);
        let mut links = |shape| world.links_of(shape).unwrap_or_default();
        assert_eq!(links(Shape::OneWay(Role::Slot(1), Role::Slot(2))), [(1, 2)]);
        assert_eq!(links(Shape::OneWay(Role::Slot(1), Role::Slot(1))), []);
        assert_eq!(links(Shape::Pair(Role::Slot(1), Role::Slot(2))), [(1, 2), (2, 1)]);
        assert_eq!(links(Shape::Deaf(Role::Slot(0))), [(1, 0), (2, 0), (3, 0), (4, 0)]);
        assert_eq!(links(Shape::Mute(Role::Slot(0))), [(0, 1), (0, 2), (0, 3), (0, 4)]);
        assert_eq!(links(Shape::Isolate(Role::Slot(4))).len(), 8);
        assert_eq!(links(Shape::Halves(0b00011)).len(), 12);
        assert_eq!(links(Shape::Blackout).len(), 20);
        // On a ring of five each process keeps its two neighbours.
        assert_eq!(links(Shape::Ring).len(), 10);
    }

    #[test]
    fn processes_of_one_machine_have_their_own_weather() {
        let mut settings = WorldSettings::quiet(3);
        settings.hosts = vec![1, 1, 2];
        let mut world = World::new(settings, 1);
        let storm = Weather { loss_ppm: 1_000_000, ..Weather::FINE };
        world.set_weather(&all_links(3), storm);
        assert_eq!(*world.net.weather_mut(0, 1), Weather::LOCAL);
        assert_eq!(*world.net.weather_mut(0, 2), storm);
    }
}
