package datapath
import ("testing";"time";"fmt";"context")
func TestZZBig(t *testing.T){
 for _,hook:=range []string{HookTCX,HookClsact} {
 l:=newLab(t,hook)
 var names []string
 const side=14
 for i:=0;i<250;i++ { names=append(names,fmt.Sprintf("n%d",i)); l.Add(names[i]) }
 for i:=range names { l.Veth(names[i],"right",names[(i+1)%250],"left"); l.Veth(names[i],"down",names[(i+side)%250],"up"); l.Address(names[i],"right",fmt.Sprintf("10.%d.%d.1/24",i/256,i%256)) }
 s:=time.Now(); sp:=l.specs(names...); fmt.Println(hook,"specs",time.Since(s))
 l.opts.Slots=1<<16
 s=time.Now(); r,err:=Attach(t.Context(),AttachRequest{Domain:l.domain,Nodes:sp,Options:&l.opts}); if err!=nil {t.Fatal(err)}
 fmt.Println(hook,"attach",time.Since(s),r.AddedPorts)
 s=time.Now(); c:=l.refresh(); fmt.Println(hook,"refresh",time.Since(s),c.Empty())
 s=time.Now(); _,err=Detach(context.Background(),DetachRequest{Domain:l.domain}); fmt.Println(hook,"detach",time.Since(s),err)
 }
}
