// Global earliest deadline first as SchedCAT's native engine simulates it, written anew from its
// description, since no package registry has SchedCAT: one heap of releases and completions, one of
// ready jobs; at each event every CPU is advanced, and the CPU whose job has the latest deadline is
// looked for among all of them, as often as a ready job comes before it.
//
// Answers lines `global-CPUS JOBS` (or `described-global-CPUS JOBS`) on standard input with
// `NANOSECONDS nan nan LONGEST JOBS`, the longest response time in seconds, of the same tasks as the
// example hierarchy_round.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <queue>
#include <string>
#include <vector>

namespace {

using Nanoseconds = std::uint64_t;

struct Job {
    Nanoseconds period, work, release, done;

    Nanoseconds deadline() const { return release + period; }
};

// A release, or without a job the end of one that runs.
struct Event {
    Nanoseconds at;
    Job *job;

    bool operator<(const Event &other) const { return at > other.at; }
};

// Whether a job, or an idle CPU, comes behind another job.
struct Behind {
    bool operator()(const Job *one, const Job *other) const {
        if (!one || !other)
            return !one && other;
        return one->deadline() > other->deadline();
    }
};

class Simulation {
  public:
    Simulation(unsigned cpus, std::vector<Job> &jobs) : cpus(cpus, nullptr) {
        for (Job &job : jobs)
            events.push({job.release, &job});
    }

    void run(std::uint64_t most) {
        while (completed < most && !events.empty()) {
            advance(events.top().at);
            while (!events.empty() && events.top().at <= now) {
                if (events.top().job)
                    ready.push(events.top().job);
                events.pop();
            }
            choose();
        }
    }

    std::uint64_t completed = 0;
    Nanoseconds longest = 0;

  private:
    void advance(Nanoseconds until) {
        const Nanoseconds length = until - now;
        now = until;
        for (Job *&running : cpus) {
            if (!running)
                continue;
            running->done += length;
            if (running->done < running->work)
                continue;
            Job *job = running;
            running = nullptr;
            ++completed;
            longest = std::max(longest, now - job->release);
            job->release += job->period;
            job->done = 0;
            if (job->release >= now)
                events.push({job->release, job});
            else
                ready.push(job);
        }
    }

    void choose() {
        const Behind behind;
        while (!ready.empty()) {
            auto last = std::min_element(
                cpus.begin(), cpus.end(),
                [&](const Job *one, const Job *other) { return behind(one, other); });
            Job *next = ready.top();
            if (!behind(*last, next))
                return;
            ready.pop();
            if (*last)
                ready.push(*last);
            *last = next;
            events.push({now + next->work - next->done, nullptr});
        }
    }

    std::priority_queue<Event> events;
    std::priority_queue<Job *, std::vector<Job *>, Behind> ready;
    std::vector<Job *> cpus;
    Nanoseconds now = 0;
};

}  // namespace

int main() {
    std::string setting;
    std::uint64_t jobs;
    while (std::cin >> setting >> jobs) {
        const unsigned cpus = std::stoul(setting.substr(setting.rfind('-') + 1));
        std::vector<Job> tasks;
        for (unsigned index = 0; index < 4 * cpus; ++index) {
            const Nanoseconds period = (2'000 + index % 64 * 200) * 1'000;
            tasks.push_back({period, period * 175 / 1'000, 0, 0});
        }
        Simulation simulation(cpus, tasks);
        const auto start = std::chrono::steady_clock::now();
        simulation.run(jobs);
        const auto took = std::chrono::steady_clock::now() - start;
        std::cout << std::chrono::duration_cast<std::chrono::nanoseconds>(took).count() << " nan nan "
                  << std::fixed << std::setprecision(9) << simulation.longest / 1e9 << ' '
                  << simulation.completed << std::endl;
    }
}
