package main

import (
	"math"
	"runtime"
)

// What was published of the mechanisms, as the rows of the design quote it.
// Figures are thousands of operations per second unless their name says
// otherwise, and those of a curve stand in the order of its threads.

// curve is a published table over numbers of threads.
type curve struct {
	threads       []int
	before, after []float64
}

// machines is one table measured on machines of several architectures, by
// GOARCH.
type machines map[string]curve

// onThisKind is the table for the architecture there is; amd64's stands for
// those that nothing was published for.
func (m machines) onThisKind() (arch string, c curve) {
	arch = runtime.GOARCH
	if _, ok := m[arch]; !ok {
		arch = "amd64"
	}
	return arch, m[arch]
}

// shares is how the operations of 5 s were spread over the threads, before and
// after.
type shares struct{ before, after share }

// sharesTime is how long those runs took.
const sharesTime = 5 // seconds

var publishedA3 = struct{ writers, readers machines }{
	writers: machines{
		"amd64": { // 8 sockets
			[]int{1, 2, 4, 8, 16},
			[]float64{30659, 8909, 9028, 8410, 8217},
			[]float64{31055, 9884, 8933, 7230, 7479},
		},
		"arm64":   {[]int{1, 2, 4, 8}, []float64{21495, 5293, 5325, 5391}, []float64{21524, 5333, 5358, 5470}},
		"ppc64le": {[]int{1, 2, 4, 8}, []float64{12963, 7570, 5232, 5233}, []float64{13275, 7902, 5466, 5467}},
	},
	readers: machines{
		"amd64": {
			[]int{1, 2, 4, 8, 16},
			[]float64{31341, 16457, 15823, 14212, 25240},
			[]float64{31283, 17659, 20233, 17140, 24607},
		},
		"arm64":   {[]int{1, 2, 4, 8}, []float64{21046, 10502, 11463, 11712}, []float64{21074, 10504, 11631, 11680}},
		"ppc64le": {[]int{1, 2, 4, 8}, []float64{13647, 11569, 5516, 3386}, []float64{13601, 10829, 5435, 3168}},
	},
}

var (
	publishedA7 = shares{share{1, 7792, 173696}, share{5842, 6542, 7458}}

	// publishedA7Early is for the handoff set too early: of the readers and of
	// the writers.
	publishedA7Early = [2]shares{
		{share{1793, 1794, 1796}, share{43, 44, 46}},
		{share{1793, 34956, 86081}, share{43, 1263, 3191}},
	}
)

var (
	publishedA9 = curve{
		[]int{4, 8, 16, 32, 64},
		[]float64{2753, 2529, 1727, 1263, 889},
		[]float64{2608, 2520, 1918, 1956, 1343},
	}
	publishedA10 = curve{
		[]int{4, 8, 16, 32, 64, 240},
		[]float64{1641, 731, 564, 78, 38, 50},
		[]float64{1674, 1062, 924, 300, 195, 149},
	}
	publishedA12 = curve{
		[]int{4, 8, 16, 32, 64, 128, 240},
		[]float64{1674, 1062, 924, 300, 195, 164, 149},
		[]float64{1684, 1074, 900, 458, 208, 168, 143},
	}
	publishedA13 = curve{
		[]int{2, 4, 8, 16, 32, 64, 128, 240},
		[]float64{1759, 1684, 1074, 900, 458, 208, 168, 143},
		[]float64{6684, 6738, 7222, 7163, 7316, 520, 425, 474},
	}
)

var publishedA14 = struct{ pageFaults, short curve }{
	// Published is the gain in percent.
	pageFaults: curve{
		[]int{20, 40, 60, 80},
		[]float64{100, 100, 100, 100},
		[]float64{100.5, 110.2, 103.9, 104.0},
	},
	short: curve{
		[]int{2, 4, 8, 16, 32, 64, 80},
		[]float64{4472, 4623, 4764, 4678, 2847, 2478, 2222},
		[]float64{4839, 4143, 4126, 3873, 3263, 3121, 3104},
	},
}

var publishedA17 = struct{ writers, mixed, urgent curve }{
	writers: curve{
		[]int{1, 2, 4, 8, 16, 32, 64, 128},
		[]float64{30422, 6427, 6742, 7092, 6882, 7458, 7906, 1680},
		[]float64{30323, 7804, 7568, 5679, 6848, 7975, 8269, 8047},
	},
	mixed: curve{
		[]int{1, 2, 4, 8, 16, 32, 64, 128},
		[]float64{31034, 6684, 6738, 7222, 7163, 7316, 520, 425},
		[]float64{30379, 9436, 8268, 7041, 7652, 2189, 534, 448},
	},
	urgent: curve{
		[]int{2, 4, 8, 16, 32, 64, 128},
		[]float64{4065, 2254, 2386, 2095, 2388, 1424, 1642},
		[]float64{4756, 3460, 3012, 3083, 3717, 4060, 4488},
	},
}

var publishedAll = struct {
	halves           curve
	readers, writers shares
}{
	halves: curve{
		[]int{2, 4, 8, 16, 32, 44},
		[]float64{1566, 1191, 825, 744, 691, 672},
		[]float64{4750, 3972, 3871, 3405, 3243, 3217},
	},
	readers: shares{share{38193, 38194, 38194}, share{520981, 560847, 631603}},
	writers: shares{share{104663, 162133, 261370}, share{230567, 241565, 276940}},
}

// publishedB is the part of the time that went into spinning on owners that
// could not run, in percent, without the check; with it neither lock was in the
// profile any more, whose top entry had topEntry.
var publishedB = struct{ mutex, rwsem, topEntry float64 }{20.68, 2.64, 9.99}

// publishedC is in MB/s.
var publishedC = struct{ readWrite, write figures }{
	readWrite: figures{before: 1352, after: 2164},
	write:     figures{before: 1710, after: 2550},
}

var publishedD = struct {
	free machines
	held curve // the run time of a test, when the guess was undone
}{
	free: machines{
		"amd64": {[]int{1, 2, 4, 8}, []float64{14496, 8644, 6799, 5664}, []float64{14716, 8453, 6983, 7190}},
		"arm64": {[]int{1, 2, 4, 8}, []float64{23676, 7697, 4945, 2641}, []float64{24488, 9502, 3440, 1603}},
	},
	held: curve{[]int{1, 4, 40}, []float64{65373, 15467, 6214}, []float64{65206, 15378, 5528}},
}

// publishedE is in jobs per minute, and the write slow path's percentage of the
// time: without the re-architecture, with it, and with the spinning too.
var publishedE = struct{ jobs, slowPath [3]float64 }{
	jobs:     [3]float64{8092486, 7567568, 7954545},
	slowPath: [3]float64{1.70, 5.46, 2.08},
}

// figures is a published comparison; the zero value is for none.
type figures struct {
	before, after float64
	times         bool // they are times, of which less is better
	falls         bool // no figures that a ratio makes sense of, but less afterwards
	level         bool // the text calls them about the same
}

// levelWithin is how far from 1 a published ratio has to be to say anything:
// nothing was published of how the figures spread.
const levelWithin = 0.05

func (f figures) known() bool { return f.before > 0 }

// ratio is above 1 for a gain in throughput; NaN where there is none.
func (f figures) ratio() float64 {
	switch {
	case !f.known() || f.falls:
		return nan
	case f.times:
		return f.before / f.after
	default:
		return f.after / f.before
	}
}

// direction is -1, 0 or 1: less, about the same, more.
func (f figures) direction() int {
	r := f.ratio()
	switch {
	case f.falls:
		return -1
	case f.level || math.Abs(r-1) <= levelWithin:
		return 0
	case r < 1:
		return -1
	default:
		return 1
	}
}

// cells are before, after and the ratio for a table.
func (f figures) cells() (before, after, ratio string) {
	switch {
	case !f.known():
		return "-", "-", f.String()
	case f.falls:
		return plain(f.before), "unseen", "less"
	default:
		return plain(f.before), plain(f.after), f.String()
	}
}

func (f figures) String() string { return figure("%.2fx", f.ratio()) }
