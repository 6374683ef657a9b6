//! Where each setting stands that can decide something, for decisions that point at it.

use contract::{AgentName, Category, HostPattern, Level, RoleName};
use policy::{Agent, Dimension, Origins, Setting, ToolGlob};

use super::{DEFAULT_AGENT, Reader};
use crate::config::at::{At, Given, Place};
use crate::config::file::{AgentFile, File, LevelFile};

impl Reader {
    pub(super) fn origins(&self, tree: &File) -> Origins {
        let mut found = Found { file: &self.file, origins: Origins::default() };
        found.agents(tree);
        found.roles(tree);
        found.levels(tree);
        found.tools(tree);
        found.egress(tree);
        found.limits(tree);
        for category in Category::ALL {
            let place = super::backends::chosen(tree, *category).map(|chosen| chosen.place);
            found.add(Setting::Backend(*category), place);
        }
        found.origins
    }
}

struct Found<'a> {
    file: &'a str,
    origins: Origins,
}

fn place_of<T>(given: &Given<T>) -> Option<Place> {
    given.at().map(|at| at.place)
}

impl Found<'_> {
    fn add(&mut self, setting: Setting, place: Option<Place>) {
        if let Some(place) = place {
            self.origins.insert(setting, format!("{}:{}", self.file, place.line));
        }
    }

    fn agents(&mut self, tree: &File) {
        // Who has no level of its own begins where trust does.
        let first = tree.trust.at().map(|trust| trust.place);
        if let Ok(name) = AgentName::parse(DEFAULT_AGENT) {
            self.add(Setting::Level(name), first);
        }
        for (name, agent) in tree.agents.get().into_iter().flatten() {
            let Ok(name_read) = AgentName::parse(&name.value) else { continue };
            self.agent(&name_read, name.place, first, agent);
        }
    }

    fn agent(&mut self, name: &AgentName, place: Place, first: Option<Place>, agent: &AgentFile) {
        let named = || name.clone();
        let preset = place_of(&agent.preset);
        if let Some(preset) = agent.preset.at() {
            self.preset(name, preset.place, &preset.value.0.agent());
        }
        // An agent that says nothing about its level is here all the same, with the level that it has for that.
        self.add(Setting::Level(named()), place_of(&agent.level).or(preset).or(first).or(Some(place)));
        self.add(Setting::Autonomy(named()), place_of(&agent.autonomy).or(preset));
        self.add(Setting::AutoApprove(named()), place_of(&agent.auto_approve).or(preset));
        self.add(Setting::HumanApproval(named()), place_of(&agent.human_approval).or(preset));
        self.add(Setting::DeniedActions(named()), place_of(&agent.denied_actions).or(preset));
        self.add(Setting::Seniority(named()), place_of(&agent.seniority));
        self.patterns(&agent.allowed_tools, |glob| Setting::Allowed(name.clone(), glob));
        self.patterns(&agent.denied_tools, |glob| Setting::Denied(name.clone(), glob));
        if let Some(overrides) = agent.overrides.get() {
            self.dimensions(overrides, |dimension| Setting::Override(name.clone(), dimension));
        }
    }

    /// What a preset says of an agent stands where the preset is named.
    fn preset(&mut self, name: &AgentName, place: Place, preset: &Agent) {
        for glob in &preset.allowed {
            self.add(Setting::Allowed(name.clone(), glob.as_str().to_owned()), Some(place));
        }
        for glob in &preset.denied {
            self.add(Setting::Denied(name.clone(), glob.as_str().to_owned()), Some(place));
        }
        let overrides = &preset.overrides;
        let changed = [
            (Dimension::Categories, overrides.categories.is_some()),
            (Dimension::Network, overrides.network.is_some()),
            (Dimension::Git, overrides.git.is_some()),
            (Dimension::Terminal, overrides.terminal.is_some()),
            (Dimension::Deployment, overrides.deployment.is_some()),
            (Dimension::RequiresApproval, overrides.requires_approval.is_some()),
        ];
        for (dimension, _) in changed.into_iter().filter(|(_, is_changed)| *is_changed) {
            self.add(Setting::Override(name.clone(), dimension), Some(place));
        }
    }

    fn roles(&mut self, tree: &File) {
        for (name, _) in tree.roles.get().into_iter().flatten() {
            if let Ok(role) = RoleName::parse(&name.value) {
                self.add(Setting::Role(role), Some(name.place));
            }
        }
    }

    fn levels(&mut self, tree: &File) {
        let Some(levels) = tree.tool_access.get().and_then(|access| access.levels.get()) else { return };
        let given = [
            (Level::Sandboxed, &levels.sandboxed),
            (Level::Restricted, &levels.restricted),
            (Level::Standard, &levels.standard),
            (Level::Elevated, &levels.elevated),
            (Level::Custom, &levels.custom),
        ];
        for (level, file) in given.into_iter().filter_map(|(level, file)| Some((level, file.get()?))) {
            self.dimensions(file, |dimension| Setting::LevelMeans(level, dimension));
        }
    }

    fn dimensions(&mut self, file: &LevelFile, setting: impl Fn(Dimension) -> Setting) {
        let given = [
            (Dimension::Categories, place_of(&file.categories)),
            (Dimension::Network, place_of(&file.network)),
            (Dimension::Git, place_of(&file.git)),
            (Dimension::Terminal, place_of(&file.terminal)),
            (Dimension::Deployment, place_of(&file.deployment)),
            (Dimension::RequiresApproval, place_of(&file.requires_approval)),
        ];
        given.into_iter().for_each(|(dimension, place)| self.add(setting(dimension), place));
    }

    fn tools(&mut self, tree: &File) {
        let Some(tools) = tree.tools.get() else { return };
        let (bash, files) = (tools.bash.get(), tools.filesystem.get());
        let (http, browser) = (tools.http.get(), tools.browser.get());
        let switches = [
            ("shell", bash.map(|tool| &tool.enabled)),
            ("fs.*", files.map(|tool| &tool.enabled)),
            ("http.*", http.map(|tool| &tool.enabled)),
            ("browser.*", browser.map(|tool| &tool.enabled)),
        ];
        for (tool, enabled) in switches {
            self.add(Setting::Disabled(tool.to_owned()), enabled.and_then(place_of));
        }
        if let Some(bash) = bash {
            self.add(Setting::AllowedCommands, place_of(&bash.allowed_commands));
            self.add(Setting::ShellDirectories, place_of(&bash.allowed_directories));
            for command in bash.denied_commands.get().into_iter().flatten() {
                self.add(Setting::DeniedCommand(command.value.clone()), Some(command.place));
            }
        }
        if let Some(files) = files {
            self.add(Setting::ReadOnly, place_of(&files.read_only));
            self.add(Setting::Delete, place_of(&files.delete));
            self.add(Setting::FileDirectories, place_of(&files.allowed_directories));
        }
        if let Some(http) = http {
            self.add(Setting::HostsOfTool("http.*".to_owned()), place_of(&http.allowed_domains));
            self.blocked(&http.blocked_domains);
        }
        let domains = browser.and_then(|browser| place_of(&browser.allowed_domains));
        self.add(Setting::HostsOfTool("browser.*".to_owned()), domains);
    }

    fn limits(&mut self, tree: &File) {
        let policy = tree.policy.get();
        self.add(Setting::AgentRate, policy.and_then(|policy| place_of(&policy.agent_rate_limit)));
        let prices = tree.prices.get().and_then(|prices| prices.tools.get());
        for (name, _) in prices.into_iter().flatten() {
            self.add(Setting::Price(name.value.clone()), Some(name.place));
        }
        for hook in tree.hooks.get().into_iter().flatten() {
            if let Some(name) = hook.value.name.at() {
                self.add(Setting::Hook(name.value.clone()), Some(name.place));
            }
        }
    }

    fn egress(&mut self, tree: &File) {
        if let Some(docker) = tree.sandboxing.get().and_then(|sandboxing| sandboxing.docker.at()) {
            let place = place_of(&docker.value.allowed_hosts).or(Some(docker.place));
            for category in Category::ALL.iter().filter(|of| super::backends::runs_in_docker(tree, **of)) {
                self.add(Setting::HostsOfCategory(*category), place);
            }
        }
        let Some(egress) = tree.egress.get() else { return };
        self.add(Setting::Hosts, place_of(&egress.allow));
        self.blocked(&egress.block);
        if let Some(overrides) = egress.overrides.at() {
            for (category, list) in overrides.value.iter() {
                let place = list.first().map_or(overrides.place, |first: &At<String>| first.place);
                self.add(Setting::HostsOfCategory(category), Some(place));
            }
        }
    }

    fn blocked(&mut self, list: &Given<Vec<At<String>>>) {
        for text in list.get().into_iter().flatten() {
            if let Ok(pattern) = HostPattern::parse(&text.value) {
                self.add(Setting::Blocked(pattern.to_string()), Some(text.place));
            }
        }
    }

    fn patterns(&mut self, list: &Given<Vec<At<String>>>, setting: impl Fn(String) -> Setting) {
        for text in list.get().into_iter().flatten() {
            if let Ok(glob) = ToolGlob::parse(&text.value) {
                self.add(setting(glob.as_str().to_owned()), Some(text.place));
            }
        }
    }
}
