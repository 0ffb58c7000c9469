// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/explain"
	"github.com/vnetradar/radar/pkg/answer/wording"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/figure"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

// plotTCP chooses a connection and draws it.
func plotTCP(ctx context.Context, k *kit.Kit, f *options, s *answer.Selection) error {
	return k.ReadSources(s, func(src *answer.Sources) error {
		return k.RowsFirst(func() error {
			k.Note(src.Lacks())
			var found explain.Candidates
			oldest := s.Since
			notes, err := src.Records(ctx, s, func(r *record.Record) error {
				if r.Proto == "tcp" {
					found.Add(r)
				}
				return nil
			})
			if err != nil {
				return err
			}
			list := found.List()
			if len(list) == 0 {
				k.Note(notes)
				return fmt.Errorf("nothing to draw: no packet of TCP matches (radar flows lists what there is)")
			}
			if len(list) > 1 {
				k.Notef("%s match: this is the one with most bytes, an expression chooses another", words.Plural(len(list), "connection"))
			}
			all, err := answer.Select(filter.Spec{Proto: "tcp"}) // both directions, whatever the expression asks
			if err != nil {
				return err
			}
			all.Since, all.Until = oldest, s.Until
			a := explain.New(list[0].Flow)
			a.Trace()
			if notes, err = src.Records(ctx, all, func(r *record.Record) error {
				a.Add(r)
				return nil
			}); err != nil {
				return err
			}
			k.Note(notes)
			ans, ok := a.Finish()
			if !ok || len(ans.Sequence.Moments) == 0 {
				return fmt.Errorf("nothing to draw: the records of this flow have no sequence numbers")
			}
			return drawTCP(k, f, ans)
		})
	})
}

func drawTCP(k *kit.Kit, f *options, ans *explain.Answer) error {
	s := ans.Sequence
	if s.More > 0 {
		k.Notef("only the first %d moments of the connection are drawn, not the %d after them: choose others by --since and --until", len(s.Moments), s.More)
	}
	for _, text := range wording.Lacks(ans.Lacks) {
		k.Notef("%s", text)
	}
	from, to, most, window := s.Moments[0].TNs, s.Moments[0].TNs, int64(0), int64(0)
	for _, m := range s.Moments {
		from, to = min(from, m.TNs), max(to, m.TNs)
		if m.Kind == explain.GotAck {
			window = max(window, m.End)
			most = max(most, m.Seq)
		} else {
			most = max(most, m.End)
		}
	}
	x, y := unitFor(times, float64(max(to-from, 1))), unitFor(sizes, float64(most))
	p := &figure.Panel{
		Title: endText(ans.Src, ans.Sport) + " > " + endText(ans.Dst, ans.Dport),
		X:     figure.Axis{Label: sinceText(from, x, k.Location), Max: max(x.of64(to-from), 1e-9) * 1.02},
		Y:     figure.Axis{Label: "Sequence number (" + y.name + ")", Max: max(y.of64(most), 1e-9) * 1.08},
	}
	if window > most*2 {
		k.Notef("the window reaches up to %s beyond what was sent: where it is above the figure it is not drawn", words.Plural(int(window-most), "byte"))
	}
	look := newSequenceLook()
	for _, m := range s.Moments {
		look.add(&m, x.of64(m.TNs-from), y)
	}
	p.Marks = []figure.Mark{look.window, look.acks, look.data, look.again, look.lost}
	fig := f.figureOf(0, p)
	fig.Legend = look.legend(s.Scaled)
	fig.About = fmt.Sprintf("TCP sequence numbers over time, %s", p.Title)
	return write(k, f, fig, s.Moments)
}

func endText(addr string, port int) string { return net.JoinHostPort(addr, strconv.Itoa(port)) }

// sequenceLook is what is drawn of a connection.
type sequenceLook struct {
	data, again  figure.Segments
	acks, window figure.Curve
	lost         figure.Points
	acked, edge  float64
}

func newSequenceLook() *sequenceLook {
	return &sequenceLook{
		data:   figure.Segments{LineStyle: figure.LineStyle{Color: figure.Blue, Width: 1.5}},
		again:  figure.Segments{LineStyle: figure.LineStyle{Color: figure.Purple, Width: 2.5}},
		acks:   figure.Curve{Steps: true, LineStyle: figure.LineStyle{Color: figure.Green}},
		window: figure.Curve{Steps: true, LineStyle: figure.LineStyle{Color: figure.Gray, Dash: 1}},
		lost:   figure.Points{Marker: figure.Marker{Shape: figure.Cross, Color: figure.Red, Size: 0.6}},
	}
}

func (l *sequenceLook) add(m *explain.Moment, x float64, y unit) {
	if m.Kind == explain.GotAck {
		// An acknowledgement that was overtaken takes nothing back.
		l.acked, l.edge = max(l.acked, y.of64(m.Seq)), max(l.edge, y.of64(m.End))
		l.acks.Points = append(l.acks.Points, figure.XY{X: x, Y: l.acked})
		l.window.Points = append(l.window.Points, figure.XY{X: x, Y: l.edge})
		return
	}
	to := &l.data
	if m.Kind == explain.SentMore {
		to = &l.again
	}
	to.List = append(to.List, figure.Segment{From: figure.XY{X: x, Y: y.of64(m.Seq)}, To: figure.XY{X: x, Y: y.of64(m.End)}})
	if m.Lost {
		l.lost.List = append(l.lost.List, figure.XY{X: x, Y: y.of64((m.Seq + m.End) / 2)})
	}
}

func (l *sequenceLook) legend(scaled bool) []figure.Entry {
	list := []figure.Entry{{Text: "data sent", Line: &l.data.LineStyle}}
	if len(l.again.List) > 0 {
		list = append(list, figure.Entry{Text: "sent again", Line: &l.again.LineStyle})
	}
	if len(l.lost.List) > 0 {
		list = append(list, figure.Entry{Text: "lost", Marker: &l.lost.Marker})
	}
	if len(l.acks.Points) > 0 {
		text := "window"
		if !scaled {
			text = "window (scale not known)"
		}
		list = append(list, figure.Entry{Text: "acknowledged", Line: &l.acks.LineStyle}, figure.Entry{Text: text, Line: &l.window.LineStyle})
	}
	return list
}
