package main

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/palette/moreland"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// pictures draws what a table has to show, nothing if it is no table for that.
func (t *dataTable) pictures() ([]picture, error) {
	switch t.kind() {
	case "grid":
		return one(t.gridPicture())
	case "sweep":
		return one(t.sweepPicture())
	case "closed", "scheduled":
		return t.quantilePictures()
	case "unlock":
		return one(t.unlockPicture())
	}
	return nil, nil
}

// one is a list of a picture, empty if there is none.
func one(p *picture, err error) ([]picture, error) {
	if p == nil || err != nil {
		return nil, err
	}
	return []picture{*p}, nil
}

// fileName makes a file's name of that of a table or a cell.
func fileName(parts ...string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.':
			return r
		}
		return '-'
	}, strings.ToLower(strings.Join(parts, "-"))), "-")
}

// finish renders a drawing unless it has no panel.
func (f *drawing) finish(name string) (*picture, error) {
	if len(f.panels) == 0 {
		return nil, nil
	}
	p, err := f.render(name)
	return &p, err
}

// waitScale is for times in ns.
var waitScale = scale{log: true, label: waitText}

// wide is the quotient of values from which on an axis is logarithmic.
const wide = 20

// amountScale is linear unless the values are too far apart.
func amountScale(curves []lockCurve) scale {
	low, high := math.Inf(1), 0.0
	for _, c := range curves {
		for _, p := range c.points {
			low, high = min(low, p.y.min), max(high, p.y.max)
		}
	}
	return scale{log: low > 0 && high > wide*low, label: plainNumber}
}

// curvesOver are a metric of all locks over the cells that have a place.
func (t *dataTable) curvesOver(metric string, place map[string]float64) []lockCurve {
	var curves []lockCurve
	for _, lock := range t.locks {
		c := lockCurve{lock: lock}
		for _, cell := range t.cells {
			if x, there := place[cell]; there {
				c.add(x, metric, t.rounds(cell, lock, metric))
			}
		}
		if len(c.points) > 0 {
			slices.SortFunc(c.points, func(a, b curvePoint) int { return cmp.Compare(a.x, b.x) })
			curves = append(curves, c)
		}
	}
	return curves
}

// add adds a point, if the metric is known. Times of 0, which are below the
// clock's step, stand at 1 ns, as their axis is logarithmic.
func (c *lockCurve) add(x float64, metric string, rounds []float64) {
	y := overRounds(rounds)
	if !y.known() {
		return
	}
	if isTime(metric) {
		y = ratio{max(1, y.median), max(1, y.min), max(1, y.max)}
	}
	c.points = append(c.points, curvePoint{x, y})
}

func isTime(metric string) bool { return strings.HasSuffix(metric, "-ns") }

// places puts the cells onto an axis and labels it. Zero has no place on a
// logarithmic axis and stands left of the rest.
func (t *dataTable) places(log bool) (place map[string]float64, at map[float64]string) {
	least := math.Inf(1)
	for _, x := range t.x {
		if x > 0 {
			least = min(least, x)
		}
	}
	place, at = map[string]float64{}, map[float64]string{}
	for cell, x := range t.x {
		where := x
		switch {
		case !log, x > 0:
		case x == 0 && !math.IsInf(least, 1):
			where = least / 3
		default:
			continue
		}
		place[cell], at[where] = where, axisNumber(x)
	}
	return place, at
}

// axisNumber is short also for large numbers.
func axisNumber(x float64) string {
	if x >= 10_000 {
		return plainNumber(x/1000) + "k"
	}
	return plainNumber(x)
}

// metricPanel says how a metric is drawn.
type metricPanel struct{ metric, title string }

// drawOver draws metrics of all locks over the places of the cells.
func (t *dataTable) drawOver(f *drawing, x string, log bool, metrics []metricPanel) error {
	place, at := t.places(log)
	for _, m := range metrics {
		curves := t.curvesOver(m.metric, place)
		if len(curves) == 0 {
			continue
		}
		ys := amountScale(curves)
		if isTime(m.metric) {
			ys = waitScale
		}
		err := f.addPanel(panel{title: m.title, x: x, xs: scale{log: log, at: at}, ys: ys, curves: curves})
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

func (t *dataTable) sweepPicture() (*picture, error) {
	label, log := sweepAxis(t.name)
	f := newDrawing(t.name+": medians, and least and greatest of the rounds", 2)
	err := t.drawOver(f, label, log, []metricPanel{
		{metricThroughput, "Throughput, million operations per second"},
		{metricCPU, "CPU time for an operation, µs"},
		{"read-" + metricP999, "Readers' waits, p99.9"},
		{"write-" + metricP999, "Writers' waits, p99.9"},
	})
	if err != nil {
		return nil, err
	}
	return f.finish(fileName(t.name))
}

func (t *dataTable) unlockPicture() (*picture, error) {
	f := newDrawing("Unlock: medians, and least and greatest of the rounds", 2)
	err := t.drawOver(f, "goroutines woken", true, []metricPanel{
		{"unlock-" + metricP50, "Time of the call, p50"},
		{"unlock-" + metricP99, "Time of the call, p99"},
		{"last-" + metricP50, "Time until the last one woken runs, p50"},
	})
	if err != nil {
		return nil, err
	}
	return f.finish(fileName(t.name))
}

// quantileAt is where quantiles stand on their axis: at the powers of ten of
// what is above them.
var quantileAt = map[string]float64{
	metricP50: math.Log10(2), metricP90: 1, metricP99: 2, metricP999: 3, metricP9999: 4, metricMax: 5,
}

var quantileLabels = map[float64]string{
	math.Log10(2): "p50", 1: "p90", 2: "p99", 3: "p99.9", 4: "p99.99", 5: "max",
}

// quantilePictures draws the waits of readers and of writers for every cell.
func (t *dataTable) quantilePictures() ([]picture, error) {
	var pictures []picture
	for _, cell := range t.cells {
		f := newDrawing(t.name+" "+cell+": medians, and least and greatest of the rounds", 2)
		for _, class := range tailClasses {
			curves := t.quantileCurves(cell, class)
			if len(curves) == 0 {
				continue
			}
			err := f.addPanel(panel{title: "Waits to " + class, x: "quantile",
				xs: scale{at: quantileLabels}, ys: waitScale, curves: curves})
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", t.name, cell, err)
			}
		}
		p, err := one(f.finish(fileName(t.name, cell)))
		if err != nil {
			return nil, err
		}
		pictures = append(pictures, p...)
	}
	return pictures, nil
}

func (t *dataTable) quantileCurves(cell, class string) []lockCurve {
	var curves []lockCurve
	for _, lock := range t.locks {
		c := lockCurve{lock: lock}
		for _, stat := range waitStats {
			if x, there := quantileAt[stat]; there {
				metric := class + "-" + stat
				c.add(x, metric, t.rounds(cell, lock, metric))
			}
		}
		if len(c.points) > 0 {
			curves = append(curves, c)
		}
	}
	return curves
}

// heat is the grid's ratios as powers of two, in rows and columns.
type heat struct {
	rows, cols []string
	z          map[[2]int]float64 // by column and row
	ratios     map[[2]int]string
}

func (h *heat) Dims() (c, r int) { return len(h.cols), len(h.rows) }
func (h *heat) X(c int) float64  { return float64(c) }
func (h *heat) Y(r int) float64  { return float64(r) }
func (h *heat) Z(c, r int) float64 {
	if z, ok := h.z[[2]int{c, len(h.rows) - 1 - r}]; ok { // the first on top
		return z
	}
	return nan
}

// put enters a result where its cell's name says, if it is one of the grid.
func (h *heat) put(res *cellResult) {
	c, err := parseCell(res.name)
	if err != nil || !res.vsBest.known() || res.vsBest.median <= 0 {
		return
	}
	col, row := fmt.Sprintf("p%d %s", c.procs, c.section()), fmt.Sprintf("g%d r%d", c.goroutines, c.readPct)
	h.cols, h.rows = appendNew(h.cols, col), appendNew(h.rows, row)
	at := [2]int{slices.Index(h.cols, col), slices.Index(h.rows, row)}
	h.z[at] = math.Log2(res.vsBest.median)
	h.ratios[at] = fmt.Sprintf("%.2f", res.vsBest.median)
	if res.starved {
		h.ratios[at] += " !"
	}
}

const (
	heatRange  = 1.0 // the power of two from which on the colour stays the same
	heatColors = 64  // even, as palette.Reverse leaves out the middle one of odd numbers

	heatColumn = 2.6 * vg.Centimeter
	heatRow    = 0.75 * vg.Centimeter
)

func (t *dataTable) gridPicture() (*picture, error) {
	h := &heat{z: map[[2]int]float64{}, ratios: map[[2]int]string{}}
	for _, res := range t.results("rwsem") {
		h.put(res)
	}
	if len(h.z) == 0 {
		return nil, nil
	}
	colors := moreland.SmoothBlueRed()
	colors.SetMin(-heatRange)
	colors.SetMax(heatRange)
	p := plot.New()
	m := plotter.NewHeatMap(h, palette.Reverse(colors).Palette(heatColors))
	m.Min, m.Max = -heatRange, heatRange
	m.Underflow, m.Overflow = m.Palette.Colors()[0], m.Palette.Colors()[heatColors-1]
	m.NaN = color.White
	p.Add(m)
	labels, err := h.labels()
	if err != nil {
		return nil, err
	}
	p.Add(labels)
	p.X.Label.Padding, p.Y.Label.Padding = vg.Points(4), vg.Points(8)
	p.X.Label.Text = "GOMAXPROCS and section (blue is better, red is worse, ! is unfair)"
	p.Y.Label.Text = "goroutines and percentage of reads"
	p.NominalX(h.cols...)
	rows := slices.Clone(h.rows)
	slices.Reverse(rows)
	p.NominalY(rows...)

	f := newDrawing("Throughput of rwsem.RWMutex to that of the best of sync's locks", 1)
	f.panels = append(f.panels, p)
	f.width = max(heatColumn*vg.Length(len(h.cols)+1), 1.6*panelWidth) // its texts need that
	f.height = max(heatRow*vg.Length(len(h.rows)+3), panelHeight)
	return f.finish(fileName(t.name))
}

func (h *heat) labels() (*plotter.Labels, error) {
	var xys plotter.XYLabels
	for r := range h.rows {
		for c := range h.cols {
			if s, ok := h.ratios[[2]int{c, r}]; ok {
				xys.XYs = append(xys.XYs, plotter.XY{X: float64(c), Y: float64(len(h.rows) - 1 - r)})
				xys.Labels = append(xys.Labels, s)
			}
		}
	}
	labels, err := plotter.NewLabels(xys)
	if err != nil {
		return nil, err
	}
	for i, xy := range xys.XYs {
		ink := color.Black
		if math.Abs(h.Z(int(xy.X), int(xy.Y))) > 0.7*heatRange {
			ink = color.White
		}
		labels.TextStyle[i] = text.Style{Color: ink, Font: font.From(plot.DefaultFont, 11),
			XAlign: draw.XCenter, YAlign: draw.YCenter, Handler: plot.DefaultTextHandler}
	}
	return labels, nil
}
